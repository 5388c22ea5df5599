"""`messages`: one row a message, from all that has happened to it so far."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from courier.spark.tables.columns import INSTANT, NUMBER, TEXT, several, struct
from courier.spark.tables.events import PASSES

BUCKET = 100_000
"""So many messages, one after the other, share a file."""
LONGEST_HISTORY = 1_000

STEP = struct(offset=NUMBER, at=INSTANT, kind=TEXT, queue=TEXT, attempt=NUMBER, target=TEXT, reason=TEXT, batch=NUMBER)

SCHEMA = struct(
    tenant=TEXT,
    queue=TEXT,
    queue_id=TEXT,
    message_id=TEXT,
    seq=NUMBER,
    size=NUMBER,
    sent_at=INSTANT,
    first_received_at=INSTANT,
    settled_at=INSTANT,
    outcome=TEXT,
    attempts=NUMBER,
    released=NUMBER,
    expired=NUMBER,
    time_to_first_receive_ms=NUMBER,
    time_to_ack_ms=NUMBER,
    last_failure=TEXT,
    last_queue=TEXT,
    entered_at=INSTANT,
    history=several(STEP),
    offset=NUMBER,
    changed_batch=NUMBER,
    batch=NUMBER,
    bucket=NUMBER,
)

OPEN, DEAD = "open", "dead_lettered"
WAITING = (OPEN, DEAD)
"""Outcomes of messages that are still in a queue."""

# -- what a batch did, as the rows tell it ----------------------------------------------------------------------


def stays_ended(rows: DataFrame, batch: int) -> DataFrame:
    """Each stay that the batch ended: `tenant`, `queue`, `entered_at`, `left_at`, and `taken_ms` if it was acked."""
    gone = ~f.col("outcome").isin(*WAITING) & (f.col("changed_batch") == batch)
    ended = rows.where(gone).select(
        "tenant", f.col("last_queue").alias("queue"), "entered_at", f.col("settled_at").alias("left_at"),
        f.col("time_to_ack_ms").alias("taken_ms"),
    )  # fmt: skip
    return ended.unionByName(_stays_passed(rows, batch))


def _stays_passed(rows: DataFrame, batch: int) -> DataFrame:
    """A stay that ended by passing on began with the passage before it, or when the message was sent."""
    passages = f.filter("history", lambda step: step["kind"].isin(*PASSES))
    told = rows.where(f.col("history").isNotNull() & (f.col("changed_batch") == batch))
    each = told.select("tenant", "sent_at", passages.alias("passages")).select(
        "tenant", "sent_at", "passages", f.posexplode("passages").alias("place", "step")
    )
    before = f.when(f.col("place") > 0, f.try_element_at("passages", f.col("place"))["at"])
    return each.where(f.col("step")["batch"] == batch).select(
        "tenant",
        f.col("step")["queue"].alias("queue"),
        f.coalesce(before, f.col("sent_at")).alias("entered_at"),
        f.col("step")["at"].alias("left_at"),
        f.lit(None).cast("bigint").alias("taken_ms"),
    )
