"""A Spark session as the pipeline wants it: quiet, in UTC, on this machine unless told otherwise."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

LOG4J = Path(__file__).with_name("log4j2.properties")

LOCAL = "local[*]"


class NoSpark(Exception):
    """Spark cannot be started; the text says why, and what it needs."""


@contextlib.contextmanager
def telling(log: Path) -> Iterator[None]:
    """Have a JVM that is started in this block write into a file what it would write to standard error, for life."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def open_session(master: str = LOCAL, *, name: str = "courier", conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session on `master`; `conf` adds to, and wins over, what is set here."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers take whatever `python3` there is
    settings = dict(_quiet())
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= _on_this_machine()
    settings |= conf or {}
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        raise NoSpark(f"Spark does not start on {master}: {error.getMessage()}; it needs Java 17 or newer") from error


def _quiet() -> dict[str, str]:
    return {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": java_options(),
        "spark.sql.streaming.metricsEnabled": "false",
        # Rows that Spark keeps for its own status pages.
        "spark.sql.streaming.numRecentProgressUpdates": "20",
    }


def java_options(*more: str) -> str:
    return " ".join((f"-Dlog4j2.configurationFile=file:{LOG4J}", *more))


def _on_this_machine() -> dict[str, str]:
    cores = str(os.cpu_count() or 1)
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": cores,
        "spark.default.parallelism": cores,
    }
