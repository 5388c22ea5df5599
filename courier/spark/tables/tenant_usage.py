"""`tenant_usage`: what each tenant used on each day, as it could be charged for."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from courier.spark.tables.columns import NUMBER, TEXT, as_schema, struct
from courier.spark.tables.events import is_hidden

PUBLISHED = "published"
REQUESTS = ("sent", "received", "acked", "released", "extended", PUBLISHED)
"""What somebody asked for. A batch of ten is ten, and an empty poll none: the journal holds no more."""
UNIT_BYTES = 100_000
"""A billable unit is so much received, and at least one for each message."""
ADDED = ("requests", "messages", "received", "bytes", "billable_units")

SCHEMA = struct(tenant=TEXT, day=TEXT, **dict.fromkeys(ADDED, NUMBER), batch=NUMBER, month=TEXT)
KEY = ("tenant", "day")


def count(tally: DataFrame) -> DataFrame:
    """Events of messages in queues that people see, and of exchanges."""
    kind, times = f.col("kind"), f.col("count")
    asked = tally.where(kind.isin(*REQUESTS) & ~f.coalesce(is_hidden(), f.lit(False)))
    return asked.groupBy("tenant", f.date_format("minute", "yyyy-MM-dd").alias("day")).agg(
        # The copies that an exchange makes are told as sent one by one, but nobody asked for each of them.
        (f.sum(times) - f.sum("copies")).alias("requests"),
        _sum_of(times, kind == "sent").alias("messages"),
        _sum_of(times, kind == "received").alias("received"),
        _sum_of(f.col("bytes"), kind.isin("sent", "received")).alias("bytes"),
        _sum_of(f.col("units"), kind == "received").alias("billable_units"),
    )


def _sum_of(value: Column, condition: Column) -> Column:
    return f.sum(f.when(condition, value).otherwise(0))


def add(known: DataFrame, counted: DataFrame, *, batch: int) -> DataFrame:
    parts = known.select(*KEY, *ADDED).unionByName(counted)
    rows = parts.groupBy(*KEY).agg(*(f.sum(name).alias(name) for name in ADDED))
    rows = rows.withColumns({"batch": f.lit(batch), "month": f.substring("day", 1, 7)})
    return as_schema(rows, SCHEMA)
