"""Messages of the past, found by a condition on one of the lake's tables, laid out to be sent again.

What is found is written down before the first message is sent. From then on a replay is a fixed list, in the order of
sending: it can be stopped anywhere and goes on there, whatever has come into the tables meanwhile.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

SAMPLE = 5
FILE_ROWS = 200_000
HIDDEN = "~"
_REASON = re.compile(r"\[[A-Z][A-Z0-9_.]+\] .*")
"""How Spark writes what is wrong, wherever in its text that stands: the name of the error, then a sentence."""
_LINE = re.compile(r"\S.*")
SHOWN = ("message_id", "queue", "sent_at", "size", "body")


class ReplayError(Exception):
    """The messages cannot be found; the text says why."""


def chosen(
    spark: SparkSession, tables: Mapping[str, Sequence[str]], root: Path, *, table: str, where: str, tenant: str
) -> DataFrame:
    """The messages of a tenant whose rows in `table` fulfil the condition, as they were sent; each of them once.

    `tables` has the files of the table and of `events`, which has the bodies.
    """
    rows = _read(spark, tables[table], root / table)
    if "seq" not in rows.columns:
        raise ReplayError(f"{table} has no messages in it; replay from events, messages or dead_letters")
    with _condition_on(table):
        found = rows.where(where).where(f.col("tenant") == tenant).select("seq").distinct()
        return sent(_read(spark, tables["events"], root / "events"), tenant).join(found, "seq", "left_semi")


def _read(spark: SparkSession, files: Sequence[str], base: Path) -> DataFrame:
    return spark.read.option("mergeSchema", "true").option("basePath", str(base)).parquet(*files)


def sent(events: DataFrame, tenant: str) -> DataFrame:
    """Messages as they were sent, from the events of their sending; copies on their way to listeners are left out."""
    mine = events.where((f.col("kind") == "sent") & (f.col("tenant") == tenant) & ~f.col("queue").startswith(HIDDEN))
    detail = {name: f.get_json_object("detail", f"$.{name}") for name in ("content_type", "attributes", "group")}
    return mine.select(
        "seq",
        "message_id",
        "queue",
        f.unix_millis("at").alias("sent_at"),
        "size",
        "body",
        *(column.alias(name) for name, column in detail.items()),
    )


def preview(messages: DataFrame, *, table: str) -> tuple[int, int, list[dict[str, Any]]]:
    """How many messages there are, how many of them have a body, and the first few of those."""
    with _condition_on(table):
        counted = messages.agg(f.count("*"), f.count("body")).first()
        assert counted is not None
        sample = messages.where(f.col("body").isNotNull()).orderBy("seq").limit(SAMPLE).select(*SHOWN).collect()
    return counted[0], counted[1], [row.asDict() for row in sample]


def write_down(messages: DataFrame, count: int, folder: Path, *, table: str) -> None:
    """Those that have a body, in the order of sending, from file to file and inside each."""
    files = max(1, -(-count // FILE_ROWS))
    ordered = messages.where(f.col("body").isNotNull()).repartitionByRange(files, "seq").sortWithinPartitions("seq")
    with _condition_on(table):
        ordered.write.mode("overwrite").parquet(str(folder))


@contextlib.contextmanager
def _condition_on(table: str) -> Iterator[None]:
    """Say in one sentence why Spark cannot apply the caller's condition: it finds some mistakes only in the rows."""
    try:
        yield
    except Exception as error:  # Spark's, or of py4j, which a client of Spark Connect does without
        raise ReplayError(f"the condition cannot be applied to {table}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """What is wrong, without the whole query and without the stack of the JVM."""
    text = error.getMessage() if isinstance(error, PySparkException) else str(error)
    found = _REASON.search(text or str(error)) or _LINE.search(str(error))
    sentence = found[0] if found else type(error).__name__
    return sentence.partition("SQLSTATE")[0].strip().rstrip(".;")
