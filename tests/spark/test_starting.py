"""The process that follows a stream is forked instead of started; Spark's side of the talk is played by the test."""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from couriermq.spark import starting
from couriermq.spark.starting.ask import is_own
from tests.support.server import ServerProcess

PATIENCE_S = 30
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


class Asked:
    """What Spark has of a stream's process: the command that it started, and the number that was called back."""

    def __init__(self, command: str, folder: Path, variables: dict[str, str]) -> None:
        place = folder / f"{len(list(folder.iterdir()))}.sock"
        with socket.socket(socket.AF_UNIX) as spark:
            spark.settimeout(PATIENCE_S)
            spark.bind(str(place))
            spark.listen()
            self.command = subprocess.Popen(
                [command, "-m", starting.RUNNER],
                env=os.environ | variables | {"PYTHON_WORKER_FACTORY_SOCK_PATH": str(place)},
                cwd=folder,
                stderr=subprocess.PIPE,
            )
            self._connection, _ = spark.accept()
        self._connection.settimeout(PATIENCE_S)
        self.pid = int.from_bytes(self._connection.recv(4), "big")

    def tell(self, *texts: bytes) -> None:
        for text in texts:
            self._connection.sendall(len(text).to_bytes(4, "big") + text)

    def tell_number(self, number: int) -> None:
        self._connection.sendall(number.to_bytes(4, "big"))

    def answer(self) -> str:
        """All that it answers before it ends."""
        parts = iter(lambda: self._connection.recv(1 << 16), b"")
        return b"".join(parts).decode(errors="replace")

    def hang_up(self) -> str:
        """As Spark does when it is gone; gives what was written to standard error."""
        self._connection.close()
        assert self.command.stderr is not None
        return self.command.stderr.read().decode()

    def is_over(self) -> bool:
        return all(ends(pid) for pid in (self.pid, self.command.pid))

    def clear(self) -> None:
        self.hang_up()
        self.command.kill()
        self.command.communicate()  # which waits for it and closes its pipe


def ends(pid: int) -> bool:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], PATIENCE_S)[0])
    finally:
        os.close(process)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def lent(tmp_path: Path) -> dict[str, str]:
    return starting.variables(tmp_path)


@pytest.fixture
def ask(lent: dict[str, str], tmp_path: Path) -> Iterator[Callable[[dict[str, str]], Asked]]:
    asked: list[Asked] = []

    def ask_with(variables: dict[str, str]) -> Asked:
        asked.append(Asked(lent["PYSPARK_DRIVER_PYTHON"], tmp_path, variables))
        return asked[-1]

    yield ask_with
    for one in asked:
        one.clear()


Ask = Callable[[dict[str, str]], Asked]


def test_a_stream_is_followed_by_a_fork_that_is_where_it_was_asked_for(
    ask: Ask, lent: dict[str, str], tmp_path: Path
) -> None:
    asked, another = ask(lent), ask(lent)
    assert parent_of(asked.pid) == parent_of(another.pid) == starting._starter().process.pid
    assert Path(f"/proc/{asked.pid}/cwd").readlink() == tmp_path


def test_when_spark_hangs_up_the_fork_says_why_it_ends_and_the_command_ends_too(ask: Ask, lent: dict[str, str]) -> None:
    asked = ask(lent)
    said = asked.hang_up()
    assert "EOFError" in said
    assert "RuntimeWarning" not in said
    assert asked.is_over()


def test_a_fork_ends_with_the_command_that_spark_knows(ask: Ask, lent: dict[str, str]) -> None:
    asked = ask(lent)
    asked.command.send_signal(signal.SIGKILL)
    assert asked.is_over()


def test_a_fork_finds_sources_of_other_people_where_spark_says(ask: Ask, lent: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "their_source.py").write_text("class Source: pass")
    asked = ask(lent | {"PYTHONPATH": str(tmp_path / "theirs")})
    asked.tell(VERSION.encode(), str(tmp_path).encode())
    asked.tell_number(0)
    asked.tell(b"(itheir_source\nSource\n.")  # pickled: one of that class in that module
    assert "but got 'Source'" in asked.answer()


@pytest.mark.parametrize("told", [{}, {starting.STARTER: "nobody"}])
def test_with_nobody_to_ask_the_command_becomes_the_process_itself(ask: Ask, told: dict[str, str]) -> None:
    asked = ask(told)
    assert asked.pid == asked.command.pid
    assert "EOFError" in asked.hang_up()


def test_for_everything_else_the_command_is_python(lent: dict[str, str]) -> None:
    command = [lent["PYSPARK_DRIVER_PYTHON"], "-c", "import sys; print(sys.executable)"]
    done = subprocess.run(command, env=os.environ | lent, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == sys.executable


def test_the_starter_ends_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    code = """
import os, pathlib, signal, sys
from couriermq.spark import starting
starting.variables(pathlib.Path(sys.argv[1]))
print(starting._starter().process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ends(int(done.stdout))


def test_each_side_sees_whether_the_other_is_of_the_same_user(
    lent: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect("\0" + lent[starting.STARTER])
        assert is_own(connection)
        monkeypatch.setattr("os.getuid", lambda: 12345)
        assert not is_own(connection)


@pytest.mark.slow
def test_streams_of_a_session_are_followed_by_forks(spark: SparkSession, server: ServerProcess, tmp_path: Path) -> None:
    events = spark.readStream.format("courier").options(url=server.url, token=server.token).load()
    query = events.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        query.processAllAvailable()
        assert children_of(starting._starter().process.pid)
    finally:
        query.stop()


@pytest.mark.slow
def test_this_process_keeps_its_own_python(spark: SparkSession) -> None:
    assert spark._jvm is not None
    assert spark._jvm.System.getenv(starting.STARTER) == starting._starter().name
    assert starting.STARTER not in os.environ
    assert os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable) == sys.executable
