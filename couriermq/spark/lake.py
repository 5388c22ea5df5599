"""The lake: one folder with all tables, the notes of the query that fills them, and what must be known of both."""

import json
import os
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from couriermq.spark.stores import TableStore, open_store
from couriermq.spark.stores.base import PARQUET

CHECKPOINT = "_checkpoint"
NOTE = "_lake.json"


class LakeError(Exception):
    """The lake cannot be filled; the text says why and what to do."""


class Terms(NamedTuple):
    """What holds for the whole life of a lake."""

    format: str = PARQUET


class Lake:
    """Tables below one folder, which driver and executors see under the same path."""

    def __init__(self, spark: SparkSession, root: Path, terms: Terms | None = None) -> None:
        self.spark = spark
        self.root = root.absolute()
        self.terms = terms or Terms()
        self.store: TableStore = open_store(self.terms.format, self.root)

    @property
    def checkpoint(self) -> Path:
        return self.root / CHECKPOINT

    @property
    def width(self) -> int:
        """How many tasks can be at work at a time, about."""
        return int(self.spark.conf.get("spark.sql.shuffle.partitions") or 1)


def open_lake(spark: SparkSession, root: Path, terms: Terms) -> Lake:
    """The lake as it was begun, or begun now; raises LakeError when its tables are not those of this query."""
    query = _query_of(root)
    note = root / NOTE
    if not note.exists():
        write_synced(note, {"query": query, **terms._asdict()})
        return Lake(spark, root, terms)
    known = json.loads(note.read_text())
    if known["query"] != query:
        raise LakeError(
            f"the tables in {root} belong to a checkpoint that is gone; run `courier pipeline rebuild` for new ones"
        )
    if known["format"] != terms.format:
        raise LakeError(
            f"the lake in {root} is kept as {known['format']}, not as {terms.format}; choose another folder"
        )
    return Lake(spark, root, Terms(known["format"]))


def kept_store(root: Path) -> TableStore:
    """The tables of a lake that has been begun; one without is empty."""
    return open_store(format_of(root), root.absolute())


def format_of(root: Path) -> str:
    """What a lake is kept as, as its note says; a new one is to be Parquet."""
    note = root / NOTE
    return str(json.loads(note.read_text())["format"]) if note.exists() else PARQUET


def _query_of(root: Path) -> str | None:
    """The id of the query whose checkpoint this is; another one after a checkpoint was lost."""
    try:
        return str(json.loads((root / CHECKPOINT / "metadata").read_text())["id"])
    except FileNotFoundError:
        return None


def write_synced(path: Path, document: object) -> None:
    """A note as JSON, which appears whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.part")
    with hidden.open("w") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    hidden.replace(path)
