"""One Spark and one server for all tests of the connector and the pipeline."""

from collections.abc import Callable, Iterator
from subprocess import CompletedProcess

import pytest
from pyspark.sql import SparkSession

from couriermq.cli import main
from couriermq.spark.session import open_session
from tests.support.server import ServerProcess, start_server
from tests.support.spark import quick_conf


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = open_session("local[2]", name="tests", conf=quick_conf(tmp_path_factory.mktemp("spark")))
    yield session
    session.stop()


Courier = Callable[..., "CompletedProcess[str]"]
PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture
def courier(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Courier]:
    """The command in this process, which finds the tests' Spark already started and cannot stop it.

    A Spark for each command takes longer than all that the command does; tests about its process start one.
    """
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)
    partitions = spark.conf.get(PARTITIONS)

    def run(*arguments: object, **variables: object) -> "CompletedProcess[str]":
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return CompletedProcess(["courier"], code, *capsys.readouterr())

    yield run
    assert partitions is not None
    spark.conf.set(PARTITIONS, partitions)  # a command sets it for the cores of this machine


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[ServerProcess]:
    """A server that seals all the time, so that half of what is read comes from segments."""
    with start_server(tmp_path_factory.mktemp("server"), engine=engine, archive_segment_ms=300) as process:
        yield process
