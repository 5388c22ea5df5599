"""What the pipeline asks of a format for tables.

A table is either a log, to which each batch adds its rows, or a set of parts, each of them replaced whole. Whatever
appears is complete and durable, and doing a batch again changes nothing.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from pyspark.sql.types import StructType

PARQUET, DELTA = "parquet", "delta"
FORMATS = (PARQUET, DELTA)
BATCH = "batch"
"""The column that says which batch wrote a row's file last."""

Part = str
"""A part by the folders it is in, such as `day=2026-01-31/hour=07`."""


class TableStore(Protocol):
    """Tables below one folder, which driver and executors see under the same path."""

    def draft(self, table: str) -> Path:
        """An empty folder in which files of a table are made, and nobody sees them."""

    def add(self, table: str, draft: Path, schema: StructType, batch: int) -> None:
        """Make a draft's files a batch of a log."""

    def has(self, table: str, batch: int) -> bool:
        """Whether a log has a batch."""

    def batch_files(self, table: str, batch: int) -> list[Path]:
        """The files of a log's batch, in order."""

    def put(
        self, table: str, draft: Path, schema: StructType, by: Sequence[str], parts: Iterable[Part], batch: int
    ) -> None:
        """Put a draft's files, one for each part, in place of these parts; one that has no file is gone."""

    def part_files(self, table: str, parts: Iterable[Part]) -> dict[Part, list[Path]]:
        """The files of those of the parts that there are."""

    def parts(self, table: str) -> list[Part]:
        """The parts that there are, in order."""

    def done(self, table: str, parts: Iterable[Part], batch: int) -> set[Part]:
        """Those of the parts that a batch, or a later one, has written already."""

    def compact(self, table: str) -> tuple[int, int]:
        """Make few files of many small ones; returns how many there were before and after."""


def open_store(kind: str, root: Path) -> TableStore:
    """The store of a format; Delta's needs the extra."""
    if kind == DELTA:
        from couriermq.spark.stores.delta import DeltaStore  # noqa: PLC0415 - an extra that many do without

        return DeltaStore(root)
    from couriermq.spark.stores.parquet import ParquetStore  # noqa: PLC0415

    return ParquetStore(root)
