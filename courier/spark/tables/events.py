"""`events`: the journal as it happened, with instants as timestamps."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from courier.spark.tables.columns import BYTES, INSTANT, NUMBER, TEXT, struct

SCHEMA = struct(
    offset=NUMBER,
    kind=TEXT,
    at=INSTANT,
    tenant=TEXT,
    queue_id=TEXT,
    queue=TEXT,
    seq=NUMBER,
    message_id=TEXT,
    attempt=NUMBER,
    size=NUMBER,
    principal=TEXT,
    body=BYTES,
    detail=TEXT,
    batch=NUMBER,
)

HIDDEN = "~"
"""How the names of queues begin that belong to listeners: what happens in them are deliveries."""

ENDS = ("acked", "discarded", "purged", "cancelled")
PASSES = ("dead_lettered", "moved", "redriven")
FAILURES = ("released", "lease_expired", "dead_lettered", "discarded")


def to_table(events: DataFrame) -> DataFrame:
    """Events of the connector as the table has them."""
    return events.withColumn("at", f.timestamp_millis("at"))


def of_messages(events: DataFrame) -> DataFrame:
    """What happened to messages in queues that people see."""
    return events.where(f.col("seq").isNotNull() & ~is_hidden())


def of_listeners(events: DataFrame) -> DataFrame:
    """What happened to copies on their way to listeners."""
    return events.where(f.col("seq").isNotNull() & is_hidden())


def is_hidden() -> Column:
    return f.col("queue").startswith(HIDDEN)


def target() -> Column:
    """The queue that a message passed on to; only those events are looked into."""
    return f.when(f.col("kind").isin(*PASSES), f.get_json_object("detail", "$.target"))
