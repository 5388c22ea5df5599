"""Sparks of several processes on this machine: a standalone cluster, and a server of Spark Connect.

    with standalone(tmp_path) as master:        # spark://127.0.0.1:…, one master and two workers
    with connect_server(tmp_path) as remote:    # sc://127.0.0.1:…

A job that is to run there gets the address, and `cluster_conf` for its session. Everything ends with the block.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyspark

from tests.support.eventually import eventually_sync
from tests.support.ports import free_port
from tests.support.spark import SMALL, job_environ, quick_conf, small_java

HOME = Path(pyspark.__file__).parent
START_SECONDS = 90
WORKERS = 2


def cluster_conf(place: Path) -> dict[str, str]:
    """A session's settings for a cluster of this machine: a driver that workers reach, executors that are small."""
    return quick_conf(place) | {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": small_java(),
    }


@contextlib.contextmanager
def standalone(place: Path) -> Iterator[str]:
    """One master and two workers of one core each; gives the master's URL."""
    port, pages = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(pages)]
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(_process("spark-class", master, place / "master.log"))
        for number in range(WORKERS):
            work = [
                "--cores",
                "1",
                "--memory",
                "600m",
                "--work-dir",
                str(place / f"work-{number}"),
                "--webui-port",
                "0",
            ]
            worker = [f"{deploy}.worker.Worker", url, "--host", "127.0.0.1", *work]
            stack.enter_context(_process("spark-class", worker, place / f"worker-{number}.log"))
        _await(lambda: _alive(pages) == WORKERS, process, place / "master.log")
        yield url


def _alive(pages: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{pages}/json/", timeout=5) as answer:
        return int(json.load(answer)["aliveworkers"])


@contextlib.contextmanager
def connect_server(place: Path, master: str = "local[2]") -> Iterator[str]:
    """A server of Spark Connect on a master; gives its address."""
    port = free_port()
    conf = cluster_conf(place) | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", master, *settings]
    with _process("spark-submit", [*server, "spark-internal"], place / "connect.log") as process:
        _await(lambda: _answers(port), process, place / "connect.log")
        yield f"sc://127.0.0.1:{port}"


def _answers(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


# -- processes ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _process(program: str, arguments: Sequence[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """One of Spark's own programs, with everything that it starts; all of it ends with the block."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(HOME / "bin" / program), *arguments],
            env=_environ(), stdout=output, stderr=output, start_new_session=True, cwd=log.parent,
        )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _environ() -> dict[str, str]:
    return job_environ() | {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "600m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(SMALL),
        "PYSPARK_PYTHON": sys.executable,
    }


def _await(is_there: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path) -> None:
    def tail() -> str:
        return log.read_text(errors="replace")[-4_000:]

    def look() -> bool:
        with contextlib.suppress(OSError, ValueError):
            if is_there():
                return True
        assert process.poll() is None, f"Spark did not start:\n{tail()}"
        return False

    eventually_sync(look, seconds=START_SECONDS, tell=tail)
