"""Schemas of tables, put together without a running Spark, and what their columns have in common."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
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


def struct(**columns: DataType) -> StructType:
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind)
    return schema


def several(kind: DataType) -> ArrayType:
    return ArrayType(kind)


def count_of(condition: Column) -> Column:
    return f.sum(condition.cast("bigint"))


def minute_of(instant: str) -> Column:
    """Arithmetic, because the calendar's own function is far slower."""
    return f.timestamp_millis(f.expr(f"unix_millis({instant}) div {MINUTE_MS} * {MINUTE_MS}"))


def with_hours(rows: DataFrame, instant: str) -> DataFrame:
    """The columns that name the folders of an hour: `day` such as 2026-01-31, and `hour` such as 07."""
    return rows.withColumn("day", f.date_format(instant, "yyyy-MM-dd")).withColumn("hour", f.date_format(instant, "HH"))


def as_schema(rows: DataFrame, schema: StructType) -> DataFrame:
    """The schema's columns, in its order and with its types; those that the rows lack are null."""
    present = set(rows.columns)
    return rows.select(
        *(
            (f.col(field.name) if field.name in present else f.lit(None)).cast(field.dataType).alias(field.name)
            for field in schema
        )
    )
