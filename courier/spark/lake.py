"""The lake: tables as folders of Parquet that anybody can read as they are.

A table is either a log, to which each batch adds one folder, or a set of parts, each of them one file that is replaced
whole. Both appear by rename, after everything in them is written and synced: no reader ever sees half of anything, and
doing the same batch again changes nothing.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

STAGING = "_staging"
CHECKPOINT = "_checkpoint"
NO_MARKER = ("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")


class Lake:
    """Tables below one folder, which driver and executors see under the same path."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self.root = root.absolute()

    @property
    def checkpoint(self) -> Path:
        return self.root / CHECKPOINT

    # -- logs -------------------------------------------------------------------------------------------------

    def append(self, table: str, frame: DataFrame, batch: int) -> Path:
        """Add a batch's rows, unless they are there already; returns where they are."""
        folder = self.root / table / f"batch={batch:08d}"
        if not folder.exists():
            staged = self._stage(table, frame)
            for path in staged.iterdir():
                _sync(path)
            folder.parent.mkdir(parents=True, exist_ok=True)
            staged.rename(folder)
            _sync(folder.parent)
        return folder

    # -- parts ------------------------------------------------------------------------------------------------

    def replace(self, table: str, frame: DataFrame, by: str, order: str) -> None:
        """Put new files, their rows in order, in place of the parts that the frame has rows of, one after the other."""
        staged = self._stage(table, frame.repartition(by).sortWithinPartitions(by, order), by)
        for part in sorted(staged.glob(f"{by}=*")):
            (file,) = part.glob("*.parquet")
            _sync(file)
            folder = self.root / table / part.name
            folder.mkdir(parents=True, exist_ok=True)
            file.replace(folder / f"{table}.parquet")
            _sync(folder)
        shutil.rmtree(staged)

    def read(self, table: str, schema: StructType, by: str, parts: Iterable[object] | None = None) -> DataFrame:
        """The rows of a table, or of some of its parts; a column that a file lacks is null."""
        base = self.root / table
        names = sorted(path.name for path in base.glob(f"{by}=*")) if base.exists() else []
        if parts is not None:
            wanted = {f"{by}={part}" for part in parts}
            names = [name for name in names if name in wanted]
        if not names:
            return self._spark.createDataFrame([], schema)
        reader = self._spark.read.schema(schema).option("basePath", str(base))
        return reader.parquet(*(str(base / name) for name in names)).select(*schema.names)

    def parts(self, table: str, by: str) -> list[str]:
        """The values of `by` that a table has parts of, as texts."""
        return sorted(path.name.partition("=")[2] for path in (self.root / table).glob(f"{by}=*"))

    def _stage(self, table: str, frame: DataFrame, *by: str) -> Path:
        staged = self.root / STAGING / table
        shutil.rmtree(staged, ignore_errors=True)  # what a run that was killed left behind
        frame.write.option(*NO_MARKER).partitionBy(*by).parquet(str(staged))
        for checksum in staged.rglob("*.crc"):  # of no use once a file has another name
            checksum.unlink()
        return staged


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
