"""Commands that read a journal with several lanes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from couriermq.core.lanes import lane_of
from tests.cli.conftest import Courier
from tests.support.laned import COMMAND
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

COUNT = 90
"""With so many commits there are three lanes."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with start_server(tmp_path, engine="sqlite", command=COMMAND, archive_segment_ms=300) as process:
        yield process


@pytest.fixture
def courier(server: ServerProcess) -> Courier:
    courier = Courier(COURIER_URL=server.url, COURIER_TOKEN=server.token, COURIER_DATA=str(server.data))
    courier.ok("queues", "create", "orders")
    return courier


def send(server: ServerProcess, numbers: range) -> None:
    """Each in a commit of its own."""
    for number in numbers:
        path = f"{server.url}/courier/v1/tenants/default/queues/orders/messages"
        message = {"id": f"m{number}", "body": "x", "attributes": {"user": f"u{number % 2}"}}
        assert server.session.post(path, json=message, timeout=30).status_code < 300


def test_the_journal_tells_the_events_of_all_lanes_once_in_the_order_of_time(
    server: ServerProcess, courier: Courier
) -> None:
    send(server, range(COUNT))
    events = [json.loads(line) for line in courier.ok("journal", "--json").lines]
    assert {lane_of(event["offset"]) for event in events} == {0, 1, 2}
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)
    offsets = [event["offset"] for event in events]
    assert len(set(offsets)) == len(offsets)
    assert {event["message_id"] for event in events if event["kind"] == "sent"} == {f"m{n}" for n in range(COUNT)}
    assert [json.loads(line)["offset"] for line in courier.ok("journal", "--last", 7, "--json").lines] == offsets[-7:]
    assert len(courier.ok("journal", "--from", offsets[40], "--json").lines) == len(offsets) - 40
    assert "queue_added" in courier.ok("audit").out


def test_a_tail_goes_on_in_lanes_that_appear(server: ServerProcess, courier: Courier) -> None:
    with courier.running("tail", "orders", "--last", 10, "--json") as tail:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["kind"] == "queue_added"  # from now on it waits
        send(server, range(COUNT))
        told = [json.loads(tail.stdout.readline()) for _ in range(COUNT)]
    assert sorted(event["message_id"] for event in told) == sorted(f"m{n}" for n in range(COUNT))
    assert {lane_of(event["offset"]) for event in told} == {0, 1, 2}


def test_messages_are_erased_from_the_segments_of_all_lanes(server: ServerProcess, courier: Courier) -> None:
    send(server, range(COUNT))
    told = courier.ok("erase", "-a", "user=u1", "--wait", "45s", "--yes", "--json").json
    assert (told["complete"], len(told["seqs"])) == (True, COUNT // 2)
    offsets = [first for file in told["archive"] for first, _ in file["offsets"]]
    assert {lane_of(offset) for offset in offsets} == {0, 1, 2}
    assert "u1" not in courier.ok("journal", "--kind", "sent", "--json").out
