"""A server that seals without pause, killed again and again, neither loses nor doubles an event."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests

from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

ROUNDS = 4
BATCH = 50


def send_until_it_dies(server: ServerProcess, first: int, more: int) -> list[int]:
    """Numbers of the messages that were accepted: until the server seals, then `more` times, then it is killed."""
    accepted: list[int] = []
    session, url = server.session, f"{server.url}/courier/v1/tenants/default/queues/orders/messages"
    before = segments_of(server)
    while more or segments_of(server) == before:
        more -= segments_of(server) != before
        numbers = range(first + len(accepted), first + len(accepted) + BATCH)
        answer = session.post(url, json={"messages": [{"body": str(number)} for number in numbers]}, timeout=20)
        assert answer.status_code == 200, answer.text
        accepted += numbers
    server.kill()
    return accepted


def segments_of(server: ServerProcess) -> list[Path]:
    return sorted((server.data / "archive").glob("*.parquet"))


def read_all(server: ServerProcess) -> list[dict[str, object]]:
    found, start, session = [], 0, server.session
    while True:
        query: dict[str, str | int] = {"from": start, "limit": 700, "format": "arrow"}
        answer = session.get(f"{server.url}/courier/v1/journal/events", params=query, timeout=20)
        assert answer.status_code == 200, answer.text
        found += pa.ipc.open_stream(answer.content).read_all().to_pylist()
        if start == (start := int(answer.headers["courier-next"])):
            return found


def test_sealing_survives_being_killed_at_any_moment(tmp_path: Path) -> None:
    dice = random.Random(6)
    with start_server(tmp_path, archive_segment_ms=5, archive_segment_bytes=20_000) as server:
        server.session.post(f"{server.url}/courier/v1/tenants/default/queues", json={"name": "orders"})
        accepted: list[int] = []
        for turn in range(ROUNDS):
            accepted += send_until_it_dies(server, turn * 100_000, dice.randint(1, 60))
            server.restart()
        events = read_all(server)
        as_json = requests.get(
            f"{server.url}/courier/v1/journal/events?from=0&limit=500",
            headers={"Authorization": f"Bearer {server.token}"},
            timeout=20,
        ).json()["events"]
    assert [event["offset"] for event in events] == list(range(len(events)))
    assert [int(event["body"]) for event in events if event["kind"] == "sent"] == accepted  # type: ignore[call-overload]
    assert [event["offset"] for event in as_json] == list(range(500))
    segments = segments_of(server)
    assert len(segments) > ROUNDS
    sealed = [offset for path in segments for offset in pq.read_table(path).column("offset").to_pylist()]
    assert sealed == list(range(len(sealed)))
