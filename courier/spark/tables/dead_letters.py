"""`dead_letters`: one row for each time that a message died, with what had happened to it until then."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from courier.spark.tables.columns import INSTANT, NUMBER, TEXT, as_schema, several, struct
from courier.spark.tables.messages import DEAD, STEP

HISTORY = struct(**{field.name: field.dataType for field in STEP if field.name != "batch"})

SCHEMA = struct(
    tenant=TEXT,
    queue=TEXT,
    message_id=TEXT,
    seq=NUMBER,
    size=NUMBER,
    sent_at=INSTANT,
    died_at=INSTANT,
    reason=TEXT,
    dead_letter_queue=TEXT,
    attempts=NUMBER,
    history=several(HISTORY),
    offset=NUMBER,
    batch=NUMBER,
    day=TEXT,
)


def deaths(messages: DataFrame, batch: int) -> DataFrame:
    """Those that the batch brought; `messages` has the rows that it touched."""
    told = messages.where(f.col("history").isNotNull() & (f.col("changed_batch") == batch))
    each = told.select("tenant", "message_id", "seq", "size", "sent_at", "history", f.explode("history").alias("step"))
    step = f.col("step")
    dead = each.where((step["batch"] == batch) & (step["kind"] == DEAD))
    until = f.transform(
        f.filter("history", lambda one: one["offset"] <= f.col("step.offset")),
        lambda one: f.struct(*(one[name].alias(name) for name in HISTORY.names)),
    )
    rows = dead.select(
        "tenant", step["queue"].alias("queue"), "message_id", "seq", "size", "sent_at", step["at"].alias("died_at"),
        f.coalesce(step["reason"], f.lit("unknown")).alias("reason"), step["target"].alias("dead_letter_queue"),
        step["attempt"].alias("attempts"), until.alias("history"), step["offset"].alias("offset"),
    )  # fmt: skip
    return rows.withColumn("day", f.date_format("died_at", "yyyy-MM-dd"))


def add(known: DataFrame, fresh: DataFrame, *, batch: int) -> DataFrame:
    rows = known.drop("batch").unionByName(as_schema(fresh, SCHEMA).drop("batch"))
    return as_schema(rows.withColumn("batch", f.lit(batch)), SCHEMA)
