"""Portions are published whole, or not at all."""

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from couriermq.cli import replaying
from couriermq.cli.connection import Remote
from couriermq.cli.publishing import publish
from couriermq.cli.replay_plan import Order, Plan
from couriermq.cli.sending import BATCH_COUNT
from couriermq.core.limits import ID_CHARS
from tests.cli.conftest import Courier


class Recorder:
    """A server as a client sees it: takes everything."""

    def __init__(self) -> None:
        self.client = self
        self.puts: list[tuple[str, Any]] = []

    def queue(self, *segments: str) -> str:
        return "/".join(segments)

    def put(self, path: str, document: Any) -> None:
        self.puts.append((path, document))


def published(count: int) -> tuple[list[str], Any]:
    """The parts that are staged, and the publication."""
    recorder = Recorder()
    assert publish(cast(Remote, recorder), "orders", "replay-1", 7, ({"body": str(n)} for n in range(count))) == count
    *parts, (path, order) = recorder.puts
    assert path == "orders/publications/replay-1"
    return [path for path, _ in parts], order


def test_a_publication_says_how_many_parts_it_has() -> None:
    parts, order = published(BATCH_COUNT + 1)
    assert parts == ["orders/stages/replay-1-7/0", "orders/stages/replay-1-7/1"]
    assert order == {"number": 7, "stages": ["replay-1-7"], "parts": {"replay-1-7": 2}}


def test_a_portion_of_nothing_has_no_stage() -> None:
    assert published(0) == ([], {"number": 7, "stages": [], "parts": {}})


def test_messages_of_one_id_are_no_duplicates_of_each_other() -> None:
    recorder = Recorder()
    for number in (1, 2):
        publish(cast(Remote, recorder), "line", "replay-1", number, [{"id": "same"}] * (BATCH_COUNT + 1))
    messages = [message for _, document in recorder.puts for message in document.get("messages", ())]
    assert {message["id"] for message in messages} == {"same"}
    assert len({message["dedup_id"] for message in messages}) == len(messages) == 2 * BATCH_COUNT + 2
    assert max(len(message["dedup_id"]) for message in messages) <= ID_CHARS


@pytest.mark.slow
def test_a_replay_into_a_fifo_queue_sends_every_message_of_an_id(courier: Courier, tenant: str, tmp_path: Path) -> None:
    courier.ok("queues", "create", "line", "--kind", "fifo")
    row = {"message_id": "same", "content_type": "text/plain", "attributes": None, "group": "g"}
    rows = [row | {"body": b"%d" % n} for n in range(3)]

    def write(folder: Path) -> None:
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), folder / "00000000.parquet")

    queue = courier.ok("queues", "show", "line", "--json").json["id"]
    plan = Plan(tmp_path, Order(table="messages", where="true", tenant=tenant, queue=queue, name="1"))
    plan.write(write, portion=2)
    environ = courier.environ
    remote = Remote(url=environ["COURIER_URL"], token=environ["COURIER_TOKEN"], tenant=tenant, json=True)
    replaying._send(remote, plan, queue, "line", None)
    sent = courier.ok("browse", "line", "--json").json
    assert [(message["id"], message["body"]) for message in sent] == [("same", str(n)) for n in range(3)]
