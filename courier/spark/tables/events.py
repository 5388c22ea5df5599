"""`events`: the journal as it happened, with instants as timestamps."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

HIDDEN = "~"
"""Queues that belong to listeners: what happens in them are deliveries."""
MINUTE_MS = 60_000


def to_table(events: DataFrame) -> DataFrame:
    """Events of the connector as the table has them, in order."""
    return events.withColumn("at", f.timestamp_millis("at")).sortWithinPartitions("offset")


def of_messages(events: DataFrame) -> DataFrame:
    """What happened to messages in queues that people see; `target` is the queue that a message went on to."""
    chosen = events.where(f.col("seq").isNotNull() & ~f.col("queue").startswith(HIDDEN))
    return chosen.withColumn("target", f.get_json_object("detail", "$.target"))
