"""The yardstick on PostgreSQL: pgmq's own SQL, called by pgbench without anything between."""

import re
import subprocess
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from benchmarks.client import BODY
from tests.support.postgres import Cluster, program

SCRIPTS = Path(__file__).parent
CONNECTS_A_SECOND = 64
"""How many of its clients pgbench can at least bring to work in a second; its clock runs meanwhile."""
TPS = re.compile(r"^tps = ([\d.]+) \(without initial connection time\)", re.MULTILINE)

SETTINGS = {
    "max_connections": "400",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "autovacuum_naptime": "10s",
}
"""What anybody would set on a machine that is PostgreSQL's; all else, and so every promise, as it comes."""


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
            message = f'\'{{"body": "{BODY}"}}\'::jsonb'
            self.cluster.execute(
                f"SELECT count(*) FROM pgmq.send_batch('orders', array_fill({message}, ARRAY[{count - waiting}]))"
            )

    def rate(self, script: str, *, clients: int, seconds: int, limit: int = 1) -> float:
        """Transactions a second, `clients` of them at a time."""
        text = (SCRIPTS / f"{script}.sql").read_text().replace("BODY", BODY).replace("LIMIT", str(limit))
        path = self._directory / f"{script}-{limit}.sql"
        path.write_text(text)
        command = [program("pgbench"), "--no-vacuum", "--protocol", "prepared", "--file", str(path)]
        command += ["--client", str(clients), "--jobs", "1", "--time", str(seconds + clients // CONNECTS_A_SECOND)]
        command += ["--host", str(self.cluster.folder), "--username", "courier", "postgres"]
        output = subprocess.run(command, capture_output=True, text=True, check=False)
        found = TPS.search(output.stdout)
        if output.returncode or found is None:
            raise SystemExit(f"pgbench failed: {output.stdout}{output.stderr}")
        return float(found[1])

    def close(self) -> None:
        if "cluster" in self.__dict__:
            self.cluster.remove()
