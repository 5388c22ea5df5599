"""The yardstick on PostgreSQL: pgmq's own SQL, called by pgbench without anything between."""

import contextlib
import os
import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from benchmarks.client import BODY
from tests.support.postgres import Cluster, program

SCRIPTS = Path(__file__).parent
CONNECTS_A_SECOND = 64
"""How many of its clients pgbench usually brings to work in a second."""
COUNT = re.compile(r"number of transactions actually processed: (\d+)")
TPS = re.compile(r"^tps = ([\d.]+) \(without initial connection time\)", re.MULTILINE)

SETTINGS = {
    "max_connections": "400",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "autovacuum_naptime": "10s",
}
"""What anybody would set on a machine that is PostgreSQL's; all else, and so every promise, as it comes."""

MESSAGE = f'{{"body": "{BODY}"}}'


@dataclass(frozen=True)
class Done:
    """How often pgbench got through a script, and how often a second."""

    transactions: int
    rate: float


class Pgmq:
    """One server of PostgreSQL on a real disk, with pgmq in it and room for Courier beside."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._schemas = 0

    @cached_property
    def cluster(self) -> Cluster:
        cluster = Cluster(parent=self._directory, **SETTINGS)
        cluster.execute(files("pgmq").joinpath("sql/pgmq.sql").read_text())
        return cluster

    def new_store(self) -> str:
        """The URL of an empty store of Courier's."""
        self._schemas += 1
        self.cluster.execute(f"CREATE SCHEMA c{self._schemas}")
        return self.cluster.url(f"c{self._schemas}")

    def start_over(self) -> None:
        """An empty queue, and nothing left of what earlier rows put into the database."""
        for number in range(1, self._schemas + 1):
            self.cluster.execute(f"DROP SCHEMA IF EXISTS c{number} CASCADE")
        if self.cluster.execute("SELECT queue_name FROM pgmq.list_queues() WHERE queue_name = 'orders'"):
            self.cluster.execute("SELECT pgmq.drop_queue('orders')")
        self.cluster.execute("SELECT pgmq.create('orders'); CHECKPOINT")

    def fill(self, count: int) -> None:
        """Have at least `count` messages waiting."""
        ((waiting,),) = self.cluster.execute("SELECT count(*) FROM pgmq.q_orders")
        assert isinstance(waiting, int)
        if waiting < count:
            messages = f"array_fill('{MESSAGE}'::jsonb, ARRAY[{count - waiting}])"
            self.cluster.execute(f"SELECT count(*) FROM pgmq.send_batch('orders', {messages})")

    def run(self, script: str, *, clients: int, seconds: int, limit: int = 1) -> "Done":
        """The script again and again, by so many clients; its clock runs while they connect, so it may need longer."""
        given = _variables(script, limit)
        connecting = clients // CONNECTS_A_SECOND
        for patience in (1, 4, 16):
            done = self._pgbench(script, given, clients, "--time", seconds + patience * connecting)
            if done.transactions:
                break
        return done

    def begin(self, script: str, *, clients: int, limit: int = 1) -> None:
        """What a run does before it comes to speed: connect, prepare, and go through the script once."""
        self._pgbench(script, _variables(script, limit), clients, "--transactions", 1)

    def _pgbench(self, script: str, given: dict[str, str], clients: int, *until: object) -> "Done":
        command = [
            program("pgbench"),
            "--no-vacuum",
            "--protocol",
            "prepared",
            "--file",
            str(SCRIPTS / f"{script}.sql"),
        ]
        command += [f"--define={name}={value}" for name, value in given.items()]
        command += ["--client", str(clients), "--jobs", "1", *map(str, until)]
        command += ["--host", str(self.cluster.folder), "--username", "courier", "postgres"]
        output = subprocess.run(command, capture_output=True, text=True, check=False)
        count, rate = COUNT.search(output.stdout), TPS.search(output.stdout)
        if output.returncode or count is None:
            raise SystemExit(f"pgbench failed: {output.stdout}{output.stderr}")
        return Done(int(count[1]), float(rate[1]) if rate else 0.0)

    def cpu_s(self) -> float:
        """Processor time that the server has used so far, by all its processes, those that have ended included."""
        postmaster = int((self.cluster.data / "postmaster.pid").read_text().split()[0])
        ticks = 0
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):  # it has ended meanwhile, or is no process
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                if postmaster in (int(process.name), int(fields[1])):
                    ticks += sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        if "cluster" in self.__dict__:
            self.cluster.remove()


def _variables(script: str, limit: int) -> dict[str, str]:
    """What the script is given; pgbench binds it as a client would, so that the server has to read every message."""
    if script == "receive":
        return {"limit": str(limit)}
    if script == "send":
        return {"message": MESSAGE}
    quoted = MESSAGE.replace('"', '\\"')
    return {"messages": "{" + ",".join([f'"{quoted}"'] * limit) + "}"}
