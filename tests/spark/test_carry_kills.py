"""Messages that are consumed and written on through kill -9 of everybody arrive exactly once, as they were sent."""

from pathlib import Path

import pytest

from tests.spark.killing import dice, run_through
from tests.spark.test_read_kills import BATCHES, MESSAGES, body_of, send_all
from tests.support.ports import free_port
from tests.support.server import ServerProcess, start_server
from tests.support.stores import check

pytestmark = [pytest.mark.slow, pytest.mark.every_engine]

QUEUES = "/courier/v1/tenants/default/queues"


def everything_in(server: ServerProcess, queue: str) -> list[tuple[str, int]]:
    """Body and attribute of every message, in the queue's order."""
    session, found, after = server.session, [], ""
    while True:
        page = session.get(f"{server.url}{QUEUES}/{queue}/messages?limit=1000{after}", timeout=60).json()
        found += [(message["body"], message["attributes"]["n"]) for message in page["messages"]]
        if page["next"] is None:
            return found
        after = f"&after={page['next']}"


def test_a_queue_is_carried_into_another_exactly_through_kills(tmp_path: Path, engine: str) -> None:
    count = MESSAGES
    with start_server(tmp_path, engine=engine, port=free_port()) as server:
        send_all(server, "orders", count)
        assert server.session.post(f"{server.url}{QUEUES}", json={"name": "copies"}, timeout=30).status_code == 201
        out = tmp_path / "out"
        command = ["-m", "tests.spark.jobs.carry_messages", "local[2]", server.url, server.token, "orders", "copies"]
        kills = dice(2, batches=BATCHES)
        log = tmp_path / "job.log"
        run_through([*command, str(count // BATCHES), str(out)], out / "checkpoint", server, kills, log=log)
        found = everything_in(server, "copies")
        assert len(found) == count
        assert sorted(found, key=lambda pair: pair[1]) == [(body_of(number), number) for number in range(count)]
        left = server.session.get(f"{server.url}{QUEUES}/orders/counters", timeout=30).json()
        assert (left["total_count"], left["acked_count"]) == (0, count)
        assert server.stop() == 0
        assert check(server.data, engine) == []
