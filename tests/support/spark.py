"""Spark as tests want it: started soon, small, and leaving nothing behind.

`python -m tests.support.spark` lays out the classes that Spark loads for every JVM of the tests to map.
"""

import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CLASSES = Path(sys.prefix) / f"spark-{version('pyspark')}-local.jsa"
"""The classes that Spark loads, laid out for the JVM to map: it halves the start of each."""

CLIENT = Path(sys.prefix) / "client"
"""A PySpark that is a client of Spark Connect and nothing else."""

SMALL = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=off")
"""A JVM that starts soon, does little and says nothing."""
FEW_ROWS = {
    # A few rows are read sooner than code for them is generated and compiled.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


def small_java() -> str:
    """Options of a JVM of Spark's."""
    mapped = [f"-XX:SharedArchiveFile={CLASSES}"] if CLASSES.exists() else []
    return " ".join((*mapped, *SMALL))


def hurry() -> None:
    """Have every Spark that is started from now on, here or below, be small: also those of Courier's own commands."""
    settings = [f"-D{key}={value}" for key, value in FEW_ROWS.items()]
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join((small_java(), *settings))
    os.environ["SPARK_LAUNCHER_OPTS"] = " ".join(SMALL)


def quick_conf(place: Path) -> dict[str, str]:
    """Settings for a short life, with all files of Spark's own below `place`."""
    return {
        "spark.driver.memory": "700m",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "2",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.local.dir": str(place / "local"),
    }


def job_environ(*before: Path) -> dict[str, str]:
    """For a process that runs a job of the tests: it finds the tests, and none of the developer's own settings.

    What is in the folders `before` comes before what is installed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COURIER_")}
    return kept | {
        "PYTHONPATH": os.pathsep.join([*map(str, before), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    }


def _lay_out_classes() -> None:
    """Have a Spark do a little of everything and write down, when it ends, which classes that took."""
    from couriermq.spark.session import open_session, telling

    os.environ["SPARK_SUBMIT_OPTS"] = " ".join((f"-XX:ArchiveClassesAtExit={CLASSES}", *SMALL))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with telling(place / "spark.log"):
            spark = open_session("local[2]", name="classes", conf=quick_conf(place) | FEW_ROWS)
        spark.range(10).selectExpr("id", "id % 3 AS kind").write.parquet(str(place / "rows"))
        rows = spark.readStream.schema("id LONG, kind LONG").parquet(str(place / "rows"))
        counts = rows.groupBy("kind").count().writeStream.outputMode("complete").format("memory").queryName("counts")
        counts.option("checkpointLocation", str(place / "c")).trigger(availableNow=True).start().awaitTermination()
        spark.table("counts").mapInArrow(lambda batches: batches, "kind LONG, count LONG").toArrow()
        gateway: Any = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # which ends it, and then it writes
        gateway.proc.wait()


if __name__ == "__main__":
    if not CLASSES.exists():
        _lay_out_classes()
