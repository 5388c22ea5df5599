"""Runs a Spark job to its end through kill -9 of its driver and of the server, at moments that dice choose.

A job is a module that is run in a process group of its own, with a streaming query whose checkpoint shows how far it
has come. It must do its work to the end when it is simply started again, and exit with 0 when all is done.

    kills = dice(seed=1, batches=30)
    run_through(["-m", "tests.spark.jobs.read_messages", …], checkpoint, server, kills, log=tmp_path / "job.log")
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tests.support.eventually import eventually_sync
from tests.support.server import ServerProcess
from tests.support.soak import sized
from tests.support.spark import job_environ

DRIVERS, SERVERS = sized((1, 1), (5, 3))
PATIENCE_S = 180.0
"""How long the job may take to its next batch, or to its end; a job that hangs is a finding."""
LOOK_S = 0.02
LONGEST_S = 0.5
"""The most time between a batch's beginning and a kill: about what a batch takes."""


class Kill(NamedTuple):
    """Strike so long after the job has begun the batch, or at once when it is past that."""

    batch: int
    who: Literal["driver", "server"]
    after_s: float


def dice(seed: int, *, batches: int, drivers: int = DRIVERS, servers: int = SERVERS) -> list[Kill]:
    """So many kills, spread by chance over the batches that a job will have."""
    chance = random.Random(seed)
    driver: Literal["driver"] = "driver"
    server: Literal["server"] = "server"
    victims: list[Literal["driver", "server"]] = [*([driver] * drivers), *([server] * servers)]
    chance.shuffle(victims)
    moments = sorted(chance.sample(range(batches - 1), len(victims)))
    return [Kill(moment, who, chance.uniform(0, LONGEST_S)) for moment, who in zip(moments, victims, strict=True)]


class Driver:
    """A job's process, with the JVM that it starts: a group that dies together."""

    def __init__(self, arguments: Sequence[str], log: Path, environ: dict[str, str] | None = None) -> None:
        self._arguments = [sys.executable, *arguments]
        self._environ = environ or job_environ()
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._arguments, env=self._environ, stdout=output, stderr=output, start_new_session=True
            )

    @property
    def code(self) -> int | None:
        assert self._process is not None
        return self._process.poll()

    def kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def run_through(
    arguments: Sequence[str], checkpoint: Path, server: ServerProcess, kills: Sequence[Kill], *, log: Path
) -> None:
    """Run the job until it is done, with every kill on the way; the server comes back on the port it was given."""
    driver = Driver(arguments, log)
    driver.start()
    try:
        for kill in kills:
            _await_batch(driver, checkpoint, kill.batch, log)
            time.sleep(kill.after_s)  # the moment is chance's: there is nothing to wait for
            _strike(kill, driver, server)
        _await_end(driver, log)
    finally:
        driver.kill()


def run_job(arguments: Sequence[str], *, log: Path, environ: dict[str, str] | None = None) -> None:
    """Run a job to its end, undisturbed."""
    driver = Driver(arguments, log, environ)
    driver.start()
    try:
        _await_end(driver, log)
    finally:
        driver.kill()


def _strike(kill: Kill, driver: Driver, server: ServerProcess) -> None:
    if kill.who == "driver":
        driver.kill()
        driver.start()
    else:
        server.kill()
        server.come_back()


def begun(checkpoint: Path) -> int:
    """The last batch whose beginning the checkpoint knows; -1 before the first."""
    return max((int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*")), default=-1)


def _await_batch(driver: Driver, checkpoint: Path, batch: int, log: Path) -> None:
    def is_begun() -> bool:
        assert driver.code is None, f"the job ended with {driver.code} before batch {batch}:\n{_tail(log)}"
        return begun(checkpoint) >= batch

    eventually_sync(is_begun, seconds=PATIENCE_S, tell=lambda: _tail(log))


def _await_end(driver: Driver, log: Path) -> None:
    eventually_sync(lambda: driver.code is not None, seconds=PATIENCE_S, tell=lambda: _tail(log))
    assert driver.code == 0, f"the job ended with {driver.code}:\n{_tail(log)}"


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-4_000:]


def forget_last_commit(checkpoint: Path) -> int:
    """As if the driver had died when the last batch was written but not yet committed; gives that batch."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last
