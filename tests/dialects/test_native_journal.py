"""The journal through the native dialect, as JSON and as Arrow."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from courier.dialects.native import limits
from courier.journal.schema import journal_schema
from tests.support.inprocess import Response
from tests.support.native import ALL, PREFIX, Tenant, native_tenant

JOURNAL = f"{PREFIX}/journal"
EVENTS = f"{JOURNAL}/events"
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        yield tenant


@pytest.fixture
async def start(root: Tenant) -> AsyncIterator[int]:
    """The offset from which a test's own events count."""
    yield (await root.ask("GET", JOURNAL))["next"]  # noqa: PT022


async def events(tenant: Tenant, query: str) -> list[Any]:
    listed: list[Any] = (await tenant.ask("GET", f"{EVENTS}?{query}"))["events"]
    return listed


def rows(response: Response) -> list[dict[str, Any]]:
    table = pa.ipc.open_stream(response.body).read_all()
    assert table.schema == journal_schema()
    shown: list[dict[str, Any]] = table.to_pylist()
    return shown


async def test_everything_that_happens_to_a_message_can_be_read(root: Tenant, start: int) -> None:
    queue = await root.queue("orders")
    sent = await queue.send("hello", attributes={"n": 1})
    lease = await queue.receive_one()
    await queue.ask("POST", "/ack", {"receipt": lease["receipt"]})
    listed = await events(root, f"from={start}")
    assert [(event["offset"], event["kind"]) for event in listed] == [
        (start, "queue_added"),
        (start + 1, "sent"),
        (start + 2, "received"),
        (start + 3, "acked"),
    ]
    assert {event["message_id"] for event in listed[1:]} == {sent["id"]}
    assert listed[1] | {"queue_id": None, "attempt": None} == {
        "offset": start + 1,
        "kind": "sent",
        "at": root.clock.now(),
        "tenant": "default",
        "queue_id": None,
        "queue": "orders",
        "seq": 1,
        "message_id": sent["id"],
        "attempt": None,
        "size": 5,
        "principal": "root",
        "detail": {
            "body_base64": "aGVsbG8=",
            "content_type": "text/plain; charset=utf-8",
            "attributes": {"n": 1},
        },
    }


async def test_who_follows_next_reads_everything_once(root: Tenant) -> None:
    queue = await root.queue("orders")
    for number in range(7):
        await queue.send(str(number))
    offsets, following = [], 0
    while True:
        page = await root.ask("GET", f"{EVENTS}?from={following}&limit=3")
        offsets += [event["offset"] for event in page["events"]]
        if page["next"] == following:
            break
        following = page["next"]
    assert offsets == list(range((await root.ask("GET", JOURNAL))["next"]))


async def test_a_range_has_an_end_that_is_not_part_of_it(root: Tenant) -> None:
    await root.queue("orders")
    page = await root.ask("GET", f"{EVENTS}?from=0&to=2")
    assert ([event["offset"] for event in page["events"]], page["next"]) == ([0, 1], 2)
    assert await root.ask("GET", f"{EVENTS}?from=99") == {"events": [], "next": 99}


@pytest.mark.parametrize("asked", [{"headers": {"accept": ARROW}}, {"query": "&format=arrow"}])
async def test_events_come_as_an_arrow_stream(root: Tenant, start: int, asked: dict[str, Any]) -> None:
    queue = await root.queue("orders")
    await queue.ask("POST", "/messages", {"body_base64": "/wA=", "delay_ms": 5})
    answer = await root.call("GET", f"{EVENTS}?from={start}{asked.get('query', '')}", headers=asked.get("headers"))
    assert (answer.status, answer.headers["content-type"]) == (200, ARROW)
    assert answer.headers["courier-next"] == str(start + 2)
    added, sent = rows(answer)
    assert (added["offset"], added["kind"], added["body"]) == (start, "queue_added", None)
    assert (sent["kind"], sent["queue"], sent["seq"], sent["body"]) == ("sent", "orders", 1, b"\xff\x00")
    assert '"delay_ms":5' in sent["detail"]


async def test_an_arrow_stream_comes_in_batches(root: Tenant, start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BATCH_EVENT_COUNT", 3)
    queue = await root.queue("orders")
    await queue.ask("POST", "/messages", {"messages": [{"body": str(n)} for n in range(7)]})
    answer = await root.call("GET", f"{EVENTS}?from={start}&format=arrow&limit=8")
    batches = list(pa.ipc.open_stream(answer.body))
    assert [batch.num_rows for batch in batches] == [3, 3, 2]


async def test_an_empty_arrow_stream_has_the_schema(root: Tenant) -> None:
    assert rows(await root.call("GET", f"{EVENTS}?from=99&format=arrow")) == []


async def test_a_tenant_sees_its_own_events_under_their_true_offsets(root: Tenant, start: int) -> None:
    await root.ask("POST", f"{PREFIX}/tenants", {"id": "acme"})
    acme = Tenant(root.app, "acme")
    await (await root.queue("orders")).send("ours")
    await (await acme.queue("orders")).send("theirs")
    everything = await events(root, f"from={start}")
    reader = await acme.with_scopes(("stats", ALL))
    listed = await events(reader, f"from={start}&to={start + len(everything)}")
    assert listed == [event for event in everything if event["tenant"] == "acme"]
    assert len(listed) == 3
    assert listed == await events(root, f"from={start}&to={start + len(everything)}&tenant=acme")
    assert {row["tenant"] for row in rows(await reader.call("GET", f"{EVENTS}?from={start}&format=arrow"))} == {"acme"}
    assert (await reader.refused("GET", f"{EVENTS}?tenant=default"))["status"] == 403
    assert (await root.refused("GET", f"{EVENTS}?tenant=nobody"))["status"] == 404


async def test_an_offset_that_was_trimmed_is_gone(root: Tenant) -> None:
    queue = await root.queue("orders")
    await queue.send("a")
    oldest = await root.app.store.trim_events(before=2)
    assert oldest > 0
    assert (await root.ask("GET", JOURNAL))["oldest"] == oldest
    for form in ("json", "arrow"):
        problem = await root.refused("GET", f"{EVENTS}?from=0&format={form}")
        assert (problem["status"], problem["type"]) == (410, "urn:courier:problem:offset-gone")
    assert (await events(root, ""))[0]["offset"] == oldest


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
        ("limit=1000001&format=arrow", "limit"),
        ("from=-1", "from"),
        ("from=first", "from"),
        ("to=null", "to"),
        ("format=csv", "format"),
        ("since=5", "since"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(root: Tenant, query: str, field: str) -> None:
    problem = await root.refused("GET", f"{EVENTS}?{query}")
    assert (problem["status"], problem["field"]) == (400, field)


async def test_a_form_that_events_cannot_take_is_not_acceptable(root: Tenant) -> None:
    assert (await root.refused("GET", EVENTS, headers={"accept": "text/csv"}))["status"] == 406
    assert (await root.call("GET", EVENTS, headers={"accept": "text/csv, */*;q=0.1"})).status == 200
