"""What the pipeline asks of a format for tables.

A table is either a log, to which each batch adds its rows, or a set of parts, each of them replaced whole. Whatever
appears is complete and durable, and doing a batch again changes nothing.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

PARQUET, DELTA = "parquet", "delta"
FORMATS = (PARQUET, DELTA)
BATCH = "batch"
"""The column that says which batch wrote a row's file last."""

Part = str
"""A part by the folders it is in, such as `day=2026-01-31/hour=07`."""


class TableStore(Protocol):
    """Tables below one folder, which driver and executors see under the same path."""

    def append(self, table: str, frame: DataFrame, batch: int) -> DataFrame:
        """Add a batch's rows to a log, unless they are there already; returns them as they are kept."""

    def replace(self, table: str, frame: DataFrame, by: Sequence[str], parts: Iterable[Part], batch: int) -> None:
        """Put the frame's rows in place of these parts; one that it has no rows of is gone.

        All rows of a part must be in one partition of the frame.
        """

    def read(self, table: str, schema: StructType, parts: Iterable[Part] | None = None) -> DataFrame:
        """The rows of a table, or of some of its parts; a column that a file lacks is null."""

    def parts(self, table: str) -> list[Part]:
        """The parts that there are, in order."""

    def done(self, table: str, parts: Iterable[Part], batch: int) -> set[Part]:
        """Those of the parts that a batch, or a later one, has written already."""

    def compact(self, table: str) -> tuple[int, int]:
        """Make few files of many small ones; returns how many there were before and after."""


def open_store(kind: str, spark: SparkSession, root: Path) -> TableStore:
    """The store of a format; Delta's needs the extra."""
    if kind == DELTA:
        from courier.spark.stores.delta import DeltaStore  # noqa: PLC0415 - an extra that many do without

        return DeltaStore(spark, root)
    from courier.spark.stores.parquet import ParquetStore  # noqa: PLC0415

    return ParquetStore(spark, root)
