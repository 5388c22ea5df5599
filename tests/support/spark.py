"""Spark as tests want it: started soon, small, and leaving nothing behind."""

import os
import sys
from pathlib import Path

import pyspark

from courier.spark.session import java_options

ROOT = Path(__file__).parents[2]
CLASSES = Path(sys.prefix) / f"spark-{pyspark.__version__}.jsa"
"""The classes that Spark loads, laid out for the JVM to map: made by the first run, it halves the start of the next."""


def small_java(*, makes_classes: bool = False) -> str:
    """Options of a JVM that starts soon, does little and says nothing."""
    mapped = [f"-XX:SharedArchiveFile={CLASSES}"] if CLASSES.exists() else []
    if makes_classes and not mapped and os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":  # one writes it
        mapped = [f"-XX:ArchiveClassesAtExit={CLASSES}"]
    quiet = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=off")
    return java_options(*mapped, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *quiet)


def quick_conf(place: Path, *, makes_classes: bool = False) -> dict[str, str]:
    """Settings for few rows and a short life, with all files of Spark's own below `place`."""
    return {
        "spark.driver.extraJavaOptions": small_java(makes_classes=makes_classes),
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "2",
        # A few rows are read sooner than code for them is generated and compiled.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.local.dir": str(place / "local"),
    }


def job_environ() -> dict[str, str]:
    """For a process that runs a job of the tests: it finds the tests, and none of the developer's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COURIER_")}
    return kept | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
