"""What is told when Spark cannot be had, or a job of it fails: one sentence, and an exit code."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from couriermq.spark import session
from couriermq.spark.session import reason_of
from tests.support.server import ServerProcess, environ
from tests.support.spark import CLIENT

COURIER = [sys.executable, "-m", "couriermq.cli", "pipeline", "run"]


def run(*arguments: str, place: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = environ(lake=place / "lake") | variables
    return subprocess.run([*COURIER, *arguments], env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_reason_of_a_failure_is_what_courier_said_inside_it() -> None:
    trace = "\n".join([
        "[STREAM_FAILED] Query terminated with exception: Python worker failed",
        "Traceback (most recent call last):",
        '  File "source.py", line 1, in read',
        "couriermq.spark.journal.DataLoss: offsets 0 to 9 are no longer kept",
        "JVM stacktrace:",
        "org.apache.spark.SparkException: …",
    ])  # fmt: skip
    assert reason_of(RuntimeError(trace)) == "offsets 0 to 9 are no longer kept"
    assert reason_of(RuntimeError("\n no master \n at line 1")) == "no master"
    assert reason_of(RuntimeError()) == "RuntimeError"


@pytest.mark.parametrize(
    ("told", "asked"), [("always [madvise] never", True), ("[always] madvise never", True), ("always [never]", False)]
)
def test_large_pages_are_asked_for_where_they_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, asked: bool
) -> None:
    monkeypatch.setattr(session, "LARGE_PAGES", tmp_path / "enabled")
    assert session._large_pages() == []
    (tmp_path / "enabled").write_text(told)
    assert bool(session._large_pages()) == asked


@pytest.mark.slow
def test_workers_of_this_machine_find_no_jar_in_their_path(spark: SparkSession) -> None:
    def path(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"place": pa.array(sys.path)})

    places = [Path(row.place) for row in spark.range(1).mapInArrow(path, "place STRING").collect()]
    assert not [place for place in places if place.suffix in {".jar", ".zip"} and place.exists()]
    assert [place for place in places if place.suffix == ".jar"]  # Spark still names it, by its URL


@pytest.mark.slow
def test_pythons_that_spark_starts_are_told_to_make_no_threads_and_this_one_is_not(spark: SparkSession) -> None:
    assert spark._jvm is not None
    assert spark._jvm.System.getenv("OPENBLAS_NUM_THREADS") == "1"
    assert "OPENBLAS_NUM_THREADS" not in os.environ


@pytest.mark.slow
@pytest.mark.parametrize("home", [None, "/nowhere"])
def test_without_java_a_sentence_says_so(server: ServerProcess, home: str | None, tmp_path: Path) -> None:
    variables = {"PATH": str(tmp_path), "JAVA_HOME": home or ""}
    done = run(place=tmp_path, COURIER_URL=server.url, COURIER_TOKEN=server.token, **variables)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("courier: Spark needs Java 17 or newer, and there is no java in ")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_client_of_spark_connect_alone_says_what_it_needs(server: ServerProcess, tmp_path: Path) -> None:
    variables = {"COURIER_URL": server.url, "COURIER_TOKEN": server.token, "PYTHONPATH": str(CLIENT)}
    done = run(place=tmp_path, **variables)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("courier: here is only a client of Spark Connect: give --remote")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--master", "local", "--remote", "sc://x"], "--master and --remote contradict each other"),
        (["--remote", "spark://x"], "--remote is 'spark://x'"),
    ],
)
def test_a_spark_that_makes_no_sense_is_refused(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    done = run(*arguments, place=tmp_path)
    assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", [["--master", "spark://127.0.0.1:1"], ["--remote", "sc://127.0.0.1:1"], ["--master", "no"]]
)
def test_a_spark_that_is_not_there_is_told_in_one_sentence(
    server: ServerProcess, where: list[str], tmp_path: Path
) -> None:
    done = run(*where, place=tmp_path, COURIER_URL=server.url, COURIER_TOKEN=server.token, PATH=os.environ["PATH"])
    assert done.returncode == 1
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("courier: ")]
    assert f"Spark does not start on {where[1]}" in sentence
