"""Work that Spark hands out and Arrow does.

A task reads and writes Parquet by itself, column by column; only what it has to say goes through Spark. Rows that
passed through the JVM on their way from one file to another would cost several times as much.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from couriermq.clock import fresh_key
from couriermq.journal.schema import conform

Item = TypeVar("Item")

REPEATED = ["kind", "tenant", "queue_id", "queue", "last_queue", "principal", "detail", "outcome", "last_failure"]
"""Columns in which the same texts come again and again."""
ROWS_PER_GROUP = 128 * 1024


def spread(
    spark: SparkSession,
    items: Sequence[Item],
    work: Callable[[Item], Iterable[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """One task for each of the items; the frame holds what they have to say."""
    numbers = spark.range(0, len(items), 1, max(1, len(items)))
    return numbers.mapInArrow(partial(_work_on, list(items), work), schema)


def _work_on(
    items: list[Any], work: Callable[[Any], Iterable[pa.RecordBatch]], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from work(items[number])


def read_rows(files: Sequence[str], schema: pa.Schema, *, keep: Callable[[Any], Any] | None = None) -> pa.Table:
    """The schema's columns of all rows, or of those to `keep` of each file; a column that a file lacks is null."""
    tables = [conform(_read(file, schema), schema) for file in files]
    kept = tables if keep is None else [table.filter(keep(table)) for table in tables]
    return pa.concat_tables(kept) if kept else schema.empty_table()


def _read(file: str, schema: pa.Schema) -> pa.Table:
    with pq.ParquetFile(file) as opened:
        present = set(opened.schema_arrow.names)
        return opened.read([name for name in schema.names if name in present], use_threads=False)


def write_rows(file: Path, rows: pa.Table) -> None:
    """A file has its name when it is whole and durable; a task that runs twice, on any machines, writes it twice."""
    file.parent.mkdir(parents=True, exist_ok=True)
    hidden = file.with_name(f".{file.name}.{fresh_key().hex()[:16]}")
    repeated = [name for name in REPEATED if name in rows.column_names]
    pq.write_table(rows, hidden, row_group_size=ROWS_PER_GROUP, compression="zstd", use_dictionary=repeated)
    with hidden.open("rb") as written:
        os.fsync(written.fileno())
    hidden.replace(file)
