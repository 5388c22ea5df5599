"""Schemas of tables, put together without a running Spark, and what their columns have in common."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

TEXT, NUMBER, INSTANT, BYTES = StringType(), LongType(), TimestampType(), BinaryType()
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
MS_US = 1_000
NEVER = np.iinfo(np.int64).max
HOURLY = ("day", "hour")
"""The columns that name the folders of an hour: `day` such as 2026-01-31, and `hour` such as 07."""
ARRAYS = (pa.Array, pa.ChunkedArray)

Numbers = npt.NDArray[np.int64]


def struct(**columns: DataType) -> StructType:
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind)
    return schema


def several(kind: DataType) -> ArrayType:
    return ArrayType(kind)


def arrow_schema(schema: StructType, *, without: Iterable[str] = ()) -> pa.Schema:
    """A table's columns as its files have them; those that name folders are not in the files."""
    hidden = set(without)
    return to_arrow_schema(StructType([field for field in schema if field.name not in hidden]), timezone="UTC")


def as_rows(columns: Mapping[str, Any], schema: StructType, *, without: Iterable[str] = ()) -> pa.Table:
    """The schema's columns, in its order and with its types; one that is not given is null, a plain value holds of all
    rows."""
    arrow = arrow_schema(schema, without=without)
    count = len(next(column for column in columns.values() if isinstance(column, ARRAYS)))
    return pa.table([_column(columns.get(field.name), field.type, count) for field in arrow], schema=arrow)


def _column(given: Any, kind: pa.DataType, count: int) -> Any:
    return given.cast(kind) if isinstance(given, ARRAYS) else pa.repeat(pa.scalar(given, kind), count)


def columns_of(rows: pa.Table) -> dict[str, Any]:
    return {name: rows[name] for name in rows.column_names}


def group(rows: pa.Table, key: Sequence[str], how: Mapping[str, str]) -> pa.Table:
    """Rows of the same key together, each column in its own way, under its own name."""
    grouped = rows.group_by(list(key), use_threads=False).aggregate(list(how.items()))
    return grouped.select([*key, *(f"{name}_{way}" for name, way in how.items())]).rename_columns([*key, *how])


def sum_of(values: Any, chosen: Any) -> Any:
    """The values where they are chosen, and nothing elsewhere: to be added up."""
    return pc.if_else(chosen, values, 0)


def kind_in(rows: pa.Table, *kinds: str) -> Any:
    return pc.is_in(rows["kind"], pa.array(kinds))


def instants(column: Any) -> Numbers:
    """Microseconds since the epoch; of an instant that is not there, more than any."""
    numbers: Numbers = pc.fill_null(column.cast(pa.int64()), NEVER).to_numpy()
    return numbers


def minutes_of(column: Any) -> Any:
    """The minute that each instant is in."""
    length = MINUTE_MS * MS_US
    return pa.array(instants(column) // length * length).cast(column.type)
