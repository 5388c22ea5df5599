"""Schemas of tables, put together without a running Spark."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

TEXT, NUMBER, SHARE, INSTANT, BYTES = StringType(), LongType(), DoubleType(), TimestampType(), BinaryType()


def struct(**columns: DataType) -> StructType:
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind)
    return schema


def several(kind: DataType) -> ArrayType:
    return ArrayType(kind)
