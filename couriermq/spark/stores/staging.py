"""Files in the making: they are written where no reader looks, and moved when they are whole."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from couriermq.clock import fresh_key
from couriermq.spark.tasks import write_rows

STAGING = "_staging"


def draft(root: Path, table: str) -> Path:
    """An empty folder for a table's files in the making, of this try alone: a task of one that was given up may live on
    for a while, and divide the batch otherwise."""
    place = root / STAGING / table
    shutil.rmtree(place, ignore_errors=True)  # what a run that was killed left behind
    folder = place / fresh_key().hex()[:16]
    folder.mkdir(parents=True)
    return folder


def join(root: Path, table: str, files: Sequence[Path]) -> Path:
    """Draft one file of a log's several, in their order; a column that some of them lack is null there."""
    rows = [pq.ParquetFile(file).read(use_threads=False) for file in files]
    folder = draft(root, table)
    write_rows(folder / "part-0.parquet", pa.concat_tables(rows, promote_options="default"))
    return folder


def staged_parts(staged: Path) -> Iterator[tuple[str, list[Path]]]:
    """Each part that was written, with its files."""
    folders: dict[str, list[Path]] = {}
    for file in sorted(staged.rglob("*.parquet")):
        folders.setdefault(str(file.parent.relative_to(staged)), []).append(file)
    yield from sorted(folders.items())


def clear(staged: Path) -> None:
    shutil.rmtree(staged, ignore_errors=True)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
