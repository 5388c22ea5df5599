"""`messages`: one row a message, from all that has happened to it so far."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from courier.spark.tables.columns import INSTANT, NUMBER, TEXT, as_schema, count_of, several, struct
from courier.spark.tables.events import ENDS, FAILURES, PASSES, target

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

_KEY = ["bucket", "seq"]
_FACTS = ("tenant", "queue", "queue_id", "message_id", "size")
_STEPS = tuple(dict.fromkeys((*FAILURES, *PASSES)))
_COUNTS = {"attempts": "received", "released": "released", "expired": "lease_expired"}


def bucket_of(seq: str) -> Column:
    return f.expr(f"`{seq}` div {BUCKET}").alias("bucket")


def fold(known: DataFrame, events: DataFrame, *, batch: int, width: int, whole: bool = True) -> DataFrame:
    """Messages as they are after a batch; `known` has all rows of every bucket that its events touch.

    All sides are spread by bucket into `width` partitions and joined there, so that the rows of a bucket come out
    together and in order. A journal that is not `whole` may speak of messages that were sent before it begins.
    """
    mine = events.withColumn("bucket", bucket_of("seq"))
    fresh = _facts(mine) if whole else _first_seen(mine, known)
    base = as_schema(known, SCHEMA).unionByName(as_schema(fresh, SCHEMA))
    return _rows(base.repartition(width, "bucket"), _sums(mine, width), _steps(mine, batch, width), batch=batch)


def _facts(events: DataFrame) -> DataFrame:
    return events.where(f.col("kind") == "sent").select(*_KEY, *_FACTS)


def _first_seen(events: DataFrame, known: DataFrame) -> DataFrame:
    """What the earliest event of a message says of it, for those that are not known."""
    first = events.groupBy(*_KEY).agg(f.min_by(f.struct(*_FACTS), "offset").alias("facts"))
    return first.select(*_KEY, "facts.*").join(known.select(*_KEY), _KEY, "left_anti")


def _sums(events: DataFrame, width: int) -> DataFrame:
    """Only numbers and instants, which Spark adds up in place; texts would make it sort."""
    kind, at = f.col("kind"), f.col("at")
    narrow = events.select(*_KEY, "offset", "at", "kind").repartition(width, "bucket")
    return narrow.groupBy(*_KEY).agg(
        f.min(f.when(kind == "sent", at)).alias("new_sent_at"),
        f.min(f.when(kind == "received", at)).alias("new_received_at"),
        f.max(f.when(kind.isin(*ENDS), at)).alias("ended_at"),
        f.max(_first_true({place: kind == name for place, name in enumerate(ENDS)})).alias("end"),
        *(count_of(kind == name).alias(f"new_{column}") for column, name in _COUNTS.items()),
        f.max("offset").alias("new_offset"),
    )


def _first_true(cases: dict[int, Column]) -> Column:
    """The number of the case that holds."""
    (first, condition), *others = cases.items()
    return reduce(lambda chain, case: chain.when(case[1], f.lit(case[0])), others, f.when(condition, f.lit(first)))


def _steps(events: DataFrame, batch: int, width: int) -> DataFrame:
    """Failures and passages, which few messages have: each of them, the last of each kind, and where it led to."""
    kind = f.col("kind")
    reason = f.get_json_object("detail", "$.reason").alias("reason")
    told = events.where(kind.isin(*_STEPS)).select(
        *_KEY, "offset", "at", "kind", "queue", "attempt", target().alias("target"), reason,
        f.lit(batch).cast("bigint").alias("batch"),
    )  # fmt: skip
    step = f.struct(*STEP.names)
    failure = f.struct("offset", f.coalesce("reason", "kind").alias("text"))
    return (
        told.repartition(width, "bucket")
        .groupBy(*_KEY)
        .agg(
            f.sort_array(f.collect_list(step)).alias("steps"),
            f.max(f.when(kind.isin(*PASSES), step)).alias("passed"),
            f.max(f.when(kind.isin(*FAILURES), failure)).alias("failed"),
        )
    )


def _rows(base: DataFrame, sums: DataFrame, steps: DataFrame, *, batch: int) -> DataFrame:
    """Every known or new message with what the batch adds to it; one that it does not speak of stays as it is."""
    joined = base.join(sums, _KEY, "left").join(steps, _KEY, "left")
    passed, ended = f.col("passed"), f.col("end").isNotNull()
    died = passed["kind"] == DEAD
    end_name = f.element_at(f.array(*(f.lit(name) for name in ENDS)), f.col("end") + 1)
    outcome = f.when(ended, end_name).when(passed.isNotNull(), f.when(died, f.lit(DEAD)).otherwise(f.lit(OPEN)))
    settled = f.when(ended, f.col("ended_at")).when(passed.isNotNull(), f.when(died, passed["at"]))
    touched = f.col("new_offset").isNotNull()
    changes = {
        "sent_at": f.coalesce("sent_at", "new_sent_at"),
        "first_received_at": f.least("first_received_at", "new_received_at"),
        "settled_at": f.when(ended | passed.isNotNull(), settled).otherwise(f.col("settled_at")),
        "outcome": f.coalesce(outcome, f.col("outcome"), f.lit(OPEN)),
        **{name: f.coalesce(name, f.lit(0)) + f.coalesce(f"new_{name}", f.lit(0)) for name in _COUNTS},
        "last_failure": f.coalesce(f.col("failed")["text"], f.col("last_failure")),
        "last_queue": f.coalesce(passed["target"], f.col("last_queue"), f.col("queue")),
        "entered_at": f.coalesce(passed["at"], f.col("entered_at"), f.col("new_sent_at")),
        "history": f.when(f.col("steps").isNotNull(), _longer("history", "steps")).otherwise(f.col("history")),
        "offset": f.greatest("offset", "new_offset"),
        "changed_batch": f.when(touched, f.lit(batch)).otherwise(f.col("changed_batch")),
        "batch": f.lit(batch).cast("bigint"),
    }
    rows = joined.withColumns(changes).withColumns(
        {
            "time_to_first_receive_ms": _ms_between("sent_at", "first_received_at"),
            "time_to_ack_ms": f.when(f.col("outcome") == "acked", _ms_between("sent_at", "settled_at")),
        }
    )
    return rows.select(*SCHEMA.names)


def _longer(history: str, steps: str) -> Column:
    """The newest of both; without bound, a message that fails for ever would fill the table."""
    both = f.concat(f.coalesce(history, f.array().cast(several(STEP))), f.col(steps))
    excess = f.greatest(f.size(both) - LONGEST_HISTORY, f.lit(0))
    return f.slice(both, excess + 1, f.lit(LONGEST_HISTORY))


def _ms_between(start: str, end: str) -> Column:
    return f.unix_millis(end) - f.unix_millis(start)


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
