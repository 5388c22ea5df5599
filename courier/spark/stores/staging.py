"""Files in the making: Spark writes them where no reader looks, and they are moved when they are whole."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

STAGING = "_staging"
NO_MARKER = ("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")


def draft(root: Path, table: str) -> Path:
    """An empty folder for a table's files in the making."""
    folder = root / STAGING / table
    shutil.rmtree(folder, ignore_errors=True)  # what a run that was killed left behind
    folder.mkdir(parents=True)
    return folder


def stage(root: Path, table: str, frame: DataFrame, by: Sequence[str] = ()) -> Path:
    """Write a frame as Parquet; returns the folder, in which every file is durable."""
    staged = draft(root, table)
    frame.write.mode("append").option(*NO_MARKER).partitionBy(*by).parquet(str(staged))
    for checksum in staged.rglob("*.crc"):  # of no use once a file has another name
        checksum.unlink()
    for file in staged.rglob("*.parquet"):
        sync(file)
    return staged


def joined(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    """The rows of a log's files, as one file in order; a column that some of them lack is null there."""
    rows = spark.read.option("mergeSchema", "true").parquet(*map(str, files))
    return rows.coalesce(1).sortWithinPartitions("offset")


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
