"""`messages`: one row a message, from all that has happened to it so far."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from courier.spark.tables.columns import INSTANT, NUMBER, TEXT, several, struct

BUCKET = 100_000
"""So many messages, one after the other, share a file."""

SCHEMA = struct(
    tenant=TEXT,
    queue=TEXT,
    queue_id=TEXT,
    message_id=TEXT,
    seq=NUMBER,
    sent_at=INSTANT,
    first_received_at=INSTANT,
    settled_at=INSTANT,
    outcome=TEXT,
    attempts=NUMBER,
    released=NUMBER,
    expired=NUMBER,
    time_to_first_receive_ms=NUMBER,
    time_to_ack_ms=NUMBER,
    size=NUMBER,
    last_failure=TEXT,
    history=several(struct(offset=NUMBER, at=INSTANT, kind=TEXT, queue=TEXT)),
    offset=NUMBER,
    bucket=NUMBER,
)

ENDS = ("acked", "discarded", "purged", "cancelled")
PASSES = ("dead_lettered", "moved", "redriven")
FAILURES = ("released", "lease_expired", "dead_lettered", "discarded")
OPEN = "open"

_FACTS = ("tenant", "queue", "queue_id", "message_id", "size")


def bucket_of(seq: str) -> Column:
    return f.floor(f.col(seq) / BUCKET).cast("bigint")


def fold(known: DataFrame, events: DataFrame) -> DataFrame:
    """Messages as they are after more has happened; `known` has all rows of every bucket that the events touch.

    An event that a message has seen already, because a batch is done again, is passed over.
    """
    seen = known.select("seq", f.col("offset").alias("seen"))
    fresh = events.join(seen, "seq", "left").where(f.col("seen").isNull() | (f.col("offset") > f.col("seen")))
    parts = _parts_of_rows(known).unionByName(_parts_of_events(fresh))
    return _rows(parts.groupBy("bucket", "seq").agg(*_sums()))


def _parts_of_rows(known: DataFrame) -> DataFrame:
    failure = f.struct(f.col("offset"), f.col("last_failure").alias("text"))
    return known.select(
        "bucket",
        "seq",
        f.lit(-1).cast("bigint").alias("rank"),
        f.struct(*_FACTS).alias("facts"),
        "sent_at",
        "first_received_at",
        "attempts",
        "released",
        "expired",
        f.when(f.col("last_failure").isNotNull(), failure).alias("failure"),
        "history",
        "offset",
    )


def _parts_of_events(events: DataFrame) -> DataFrame:
    kind, at = f.col("kind"), f.col("at")
    queue = f.when(kind == "sent", f.col("queue")).when(kind.isin(*PASSES), f.col("target"))
    step = f.struct("offset", "at", "kind", queue.alias("queue"))
    reason = f.coalesce(f.get_json_object("detail", "$.reason"), kind)
    return events.select(
        bucket_of("seq").alias("bucket"),
        "seq",
        f.col("offset").alias("rank"),
        f.struct(*_FACTS).alias("facts"),
        f.when(kind == "sent", at).alias("sent_at"),
        f.when(kind == "received", at).alias("first_received_at"),
        _one(kind == "received").alias("attempts"),
        _one(kind == "released").alias("released"),
        _one(kind == "lease_expired").alias("expired"),
        f.when(kind.isin(*FAILURES), f.struct(f.col("offset"), reason.alias("text"))).alias("failure"),
        f.when(kind.isin("sent", *PASSES, *ENDS), f.array(step)).alias("history"),
        "offset",
    )


def _one(condition: Column) -> Column:
    return condition.cast("bigint")


def _sums() -> list[Column]:
    return [
        f.min_by("facts", "rank").alias("facts"),
        f.min("sent_at").alias("sent_at"),
        f.min("first_received_at").alias("first_received_at"),
        f.sum("attempts").alias("attempts"),
        f.sum("released").alias("released"),
        f.sum("expired").alias("expired"),
        f.max("failure").alias("failure"),
        f.sort_array(f.flatten(f.collect_list("history"))).alias("history"),
        f.max("offset").alias("offset"),
    ]


def _rows(sums: DataFrame) -> DataFrame:
    last = f.try_element_at("history", f.lit(-1))
    settled = last["kind"].isin("dead_lettered", *ENDS)
    return (
        sums.withColumn("outcome", f.when(settled, last["kind"]).otherwise(OPEN))
        .withColumn("settled_at", f.when(settled, last["at"]))
        .withColumn("time_to_first_receive_ms", _ms_between("sent_at", "first_received_at"))
        .withColumn("time_to_ack_ms", f.when(f.col("outcome") == "acked", _ms_between("sent_at", "settled_at")))
        .withColumn("last_failure", f.col("failure")["text"])
        .select(
            *[f.col("facts")[name].alias(name) if name in _FACTS else f.col(name) for name in SCHEMA.names],
        )
    )


def _ms_between(start: str, end: str) -> Column:
    return f.unix_millis(end) - f.unix_millis(start)


def stays(messages: DataFrame) -> DataFrame:
    """Each stay of a message in a queue: `queue`, `entered_at`, `left_at` (null while it lasts), `ended` (how)."""
    following = f.transform(
        "history",
        lambda step, index: f.struct(
            step["queue"].alias("queue"),
            step["at"].alias("entered_at"),
            f.get("history", index + 1)["at"].alias("left_at"),
            f.get("history", index + 1)["kind"].alias("ended"),
        ),
    )
    exploded = messages.select("tenant", "seq", "sent_at", f.explode(following).alias("stay"))
    return exploded.select("tenant", "seq", "sent_at", "stay.*").where(f.col("queue").isNotNull())
