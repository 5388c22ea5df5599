"""One Spark and one server for all tests of the connector and the pipeline."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from courier.spark.session import java_options, open_session
from tests.support.server import ServerProcess, start_server

CLASSES = Path(sys.prefix) / f"spark-{pyspark.__version__}.jsa"
"""The classes that Spark loads, laid out for the JVM to map: made by the first run, it halves the start of the next."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    place = tmp_path_factory.mktemp("spark")
    archive = f"-XX:SharedArchiveFile={CLASSES}" if CLASSES.exists() else f"-XX:ArchiveClassesAtExit={CLASSES}"
    conf = {
        "spark.driver.extraJavaOptions": java_options(
            archive, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=off"
        ),
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
    session = open_session("local[2]", name="tests", conf=conf)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that seals all the time, so that half of what is read comes from segments."""
    with start_server(tmp_path_factory.mktemp("server"), archive_segment_ms=300) as process:
        yield process
