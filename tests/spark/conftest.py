"""One Spark and one server for all tests of the connector and the pipeline."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from couriermq.spark.session import open_session
from tests.support.server import ServerProcess, start_server
from tests.support.spark import quick_conf


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = open_session("local[2]", name="tests", conf=quick_conf(tmp_path_factory.mktemp("spark")))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[ServerProcess]:
    """A server that seals all the time, so that half of what is read comes from segments."""
    with start_server(tmp_path_factory.mktemp("server"), engine=engine, archive_segment_ms=300) as process:
        yield process
