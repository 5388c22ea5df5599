"""The journal through the native dialect, as JSON and as Arrow."""

from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from couriermq.core.hex_ids import hex_of
from couriermq.dialects.native import limits
from couriermq.journal.schema import journal_schema
from tests.support.eventually import eventually
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
        "turn": 1,
        "sent_at": root.clock.now(),
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
        assert page["at_end"] is (page["next"] == following or len(page["events"]) < 3)
        if page["next"] == following:
            break
        following = page["next"]
    assert offsets == list(range((await root.ask("GET", JOURNAL))["next"]))


async def test_a_range_has_an_end_that_is_not_part_of_it(root: Tenant) -> None:
    await root.queue("orders")
    page = await root.ask("GET", f"{EVENTS}?from=0&to=2")
    assert ([event["offset"] for event in page["events"]], page["next"]) == ([0, 1], 2)
    assert await root.ask("GET", f"{EVENTS}?from=99") == {"events": [], "next": 99, "at_end": True}


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


async def test_a_tenant_sees_its_own_events(root: Tenant, start: int) -> None:
    await root.ask("POST", f"{PREFIX}/tenants", {"id": "acme"})
    acme = Tenant(root.app, "acme")
    await (await root.queue("orders")).send("ours")
    await (await acme.queue("orders")).send("theirs")
    everything = await events(root, f"from={start}")
    reader = await acme.with_scopes(("stats", ALL), ("browse", ALL))
    ours = await events(root, f"from={start}&to={start + len(everything)}&tenant=acme")
    assert ours == [event for event in everything if event["tenant"] == "acme"]
    listed = await events(reader, "limit=3")
    assert [(event["kind"], event["message_id"], event["at"]) for event in listed] == [
        (event["kind"], event["message_id"], event["at"]) for event in ours
    ]
    assert {row["tenant"] for row in rows(await reader.call("GET", f"{EVENTS}?format=arrow"))} == {"acme"}
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


async def test_events_are_chosen_by_queue_and_kind(root: Tenant, start: int) -> None:
    orders, other = await root.queue("orders"), await root.queue("other")
    await orders.send("a")
    await other.send("b")
    query = f"from={start}&queue=orders&queue=nobody&kind=sent"
    assert [event["queue"] for event in await events(root, query)] == ["orders"]
    (row,) = rows(await root.call("GET", f"{EVENTS}?{query}&format=arrow"))
    assert row["queue"] == "orders"
    assert {event["queue"] for event in await events(root, f"from={start}&kind=sent")} == {"orders", "other"}
    (sent,) = await events(root, query)
    for asked in (sent["queue_id"], hex_of(sent["queue_id"])):
        assert {event["queue"] for event in await events(root, f"from={start}&queue={asked}")} == {"orders"}


async def test_an_arrow_stream_has_the_columns_that_were_asked_for(root: Tenant, start: int) -> None:
    await root.queue("orders")
    answer = await root.call("GET", f"{EVENTS}?from={start}&format=arrow&columns=kind,offset")
    assert pa.ipc.open_stream(answer.body).read_all().to_pylist() == [{"kind": "queue_added", "offset": start}]
    for wrong in ("columns=kind,colour&format=arrow", "columns=kind,kind&format=arrow", "columns=kind"):
        assert (await root.refused("GET", f"{EVENTS}?{wrong}"))["field"] == "columns"


async def test_an_instant_leads_to_an_offset(root: Tenant) -> None:
    await root.queue("orders")
    root.clock.advance(ms=1_000)
    at = root.clock.now()
    span = await root.ask("GET", JOURNAL)
    assert "offset" not in span
    await root.queue("later")
    assert (await root.ask("GET", f"{JOURNAL}?at={at}"))["offset"] == span["next"]
    assert (await root.ask("GET", f"{JOURNAL}?at={at + 1}"))["offset"] == span["next"] + 1
    assert (await root.ask("GET", f"{JOURNAL}?at=0"))["offset"] == 0


async def test_the_archive_answers_in_the_journals_place(tmp_path: Path) -> None:
    async with native_tenant(tmp_path, archive_segment_ms=1_000) as root:
        await (await root.queue("orders")).send("hello")
        end = (await root.ask("GET", JOURNAL))["next"]
        before, arrow = await events(root, "from=0"), rows(await root.call("GET", f"{EVENTS}?from=0&format=arrow"))

        def a_second_later() -> Awaitable[Any]:
            root.clock.advance(ms=1_000)
            return root.app.store.spans()

        await eventually(a_second_later, lambda spans: spans[0].oldest >= end - 1)
        stamp = root.app.store.stamp
        assert (await root.ask("GET", JOURNAL)) == {
            "oldest": 0,
            "next": end,
            "lanes": [{"lane": "0", "first": 0, "oldest": 0, "next": end}],
            "merged": f"o{end}",
            "store": stamp.store,
            "incarnation": stamp.incarnation,
            "jumps": [],
        }
        assert await events(root, "from=0") == before
        assert rows(await root.call("GET", f"{EVENTS}?from=0&format=arrow")) == arrow


async def test_segments_of_the_archive_are_listed_by_the_offsets_that_they_hold(tmp_path: Path) -> None:
    async with native_tenant(tmp_path, archive_segment_ms=1_000) as root:
        for name in ("orders", "bills", "letters"):
            await root.queue(name)
            await sealed(root)
        first, second, *others = listed = await segments(root)
        border, end = second["start"], listed[-1]["end"]
        files = sorted(tmp_path.rglob("*.parquet"))
        assert [f"{one['start']:020d}-{one['end']:020d}" for one in listed] == [file.stem for file in files]
        assert [one["start"] for one in listed] == [0, *(one["end"] for one in listed[:-1])]
        assert await segments(root, f"?to={border}") == [first]
        assert await segments(root, f"?from={border}") == [second, *others]
        assert await segments(root, f"?from={border - 1}&to={border + 1}") == [first, second]
        assert await segments(root, f"?from={end}") == []
        assert await segments(root, f"?from={border}&to=0") == []
        assert await segments(root, "?from=1&to=1") == []


async def sealed(root: Tenant) -> None:
    """Wait until all that has happened is in the archive."""
    end = (await root.ask("GET", JOURNAL))["next"]

    def a_second_later() -> Awaitable[list[Any]]:
        root.clock.advance(ms=1_000)
        return segments(root)

    await eventually(a_second_later, lambda listed: listed and listed[-1]["end"] >= end)


async def segments(tenant: Tenant, query: str = "") -> list[Any]:
    listed: list[Any] = (await tenant.ask("GET", f"{JOURNAL}/segments{query}"))["segments"]
    return listed


async def test_without_an_archive_there_are_no_segments(tmp_path: Path) -> None:
    async with native_tenant(tmp_path, archive_enabled=False) as root:
        assert await segments(root) == []


async def test_an_offset_of_a_lane_that_is_not_there_is_refused(root: Tenant) -> None:
    for path in (f"{EVENTS}?from={2**45}", f"{EVENTS}?from={2**45}&format=arrow", f"{JOURNAL}/segments?from={2**45}"):
        assert "no lane 1," in (await root.refused("GET", path))["detail"]
    assert "no lane 3," in (await root.refused("PUT", f"{JOURNAL}/cursors/lake", {"offset": 3 * 2**45}))["detail"]
    assert "no lane 0.2," in (await root.refused("GET", f"{EVENTS}?from={2 * 2**41 + 5}"))["detail"]
    assert "no offset" in (await root.refused("GET", f"{EVENTS}?merged=true&from=o7-{2**41}"))["detail"]


async def test_cursors_are_made_moved_listed_and_forgotten(root: Tenant) -> None:
    cursors, lake = f"{JOURNAL}/cursors", f"{JOURNAL}/cursors/lake"
    at = root.clock.now()
    assert await root.ask("PUT", lake, {"offset": 2}) == {"name": "lake", "offset": 2, "changed_at": at}
    assert (await root.ask("PUT", lake, {"offset": 1}))["offset"] == 2
    assert await root.ask("GET", cursors) == {"cursors": [{"name": "lake", "offset": 2, "changed_at": at}]}
    assert (await root.refused("PUT", lake, {"offset": 99}))["field"] == "offset"
    reader = await root.with_scopes(("stats", ALL))
    for method, path in (("GET", cursors), ("PUT", lake), ("DELETE", lake)):
        assert (await reader.refused(method, path, {"offset": 2}))["status"] == 403
    await root.ask("DELETE", lake)
    assert (await root.refused("DELETE", lake))["type"] == "urn:courier:problem:cursor-not-found"


async def test_a_json_page_ends_before_the_event_that_does_not_fit_and_next_goes_on_with_it(
    root: Tenant, start: int
) -> None:
    queue = await root.queue("orders")
    for _ in range(3):
        await queue.tenant.ask("POST", "/queues/orders/messages", {"body": "x" * 3_500_000})
    offsets: list[list[int]] = []
    while (page := await root.ask("GET", f"{EVENTS}?from={start}&kind=sent&limit=10000"))["next"] != start:
        offsets.append([event["offset"] for event in page["events"]])
        start = page["next"]
    assert [len(some) for some in offsets] == [1, 1, 1]
    assert sorted({offset for some in offsets for offset in some}) == [offset for some in offsets for offset in some]


# -- choosing -------------------------------------------------------------------------------------------------


async def page_of(tenant: Tenant, query: str) -> dict[str, Any]:
    page: dict[str, Any] = await tenant.ask("GET", f"{PREFIX}/journal/events?{query}")
    return page


async def test_events_are_chosen_by_principal_message_and_seq(root: Tenant) -> None:
    orders = await root.queue("orders")
    other = await root.with_scopes(("send", ["*"]), ("stats", ["*"]))
    await orders.send(id="one")
    await orders.of(other).send(id="two")
    await orders.receive(limit=2)
    by_message = await page_of(root, "message=two")
    assert [event["kind"] for event in by_message["events"]] == ["sent", "received"]
    sender = by_message["events"][0]["principal"]
    assert {event["message_id"] for event in (await page_of(root, f"principal={sender}"))["events"]} == {"two"}
    for tenant in (root, other):
        seq = (await page_of(tenant, "message=one&kind=sent"))["events"][0]["seq"]
        found = await page_of(tenant, f"seq={seq}")
        assert [event["message_id"] for event in found["events"]] == ["one", "one"]


async def test_the_newest_events_can_come_first(root: Tenant) -> None:
    orders = await root.queue("orders")
    for number in range(5):
        await orders.send(id=str(number))
    limited = await root.with_scopes(("stats", ["*"]))
    for tenant in (root, limited):
        first = await page_of(tenant, "order=newest&kind=sent&limit=3")
        assert [event["message_id"] for event in first["events"]] == ["4", "3", "2"]
        assert first["at_end"] is False
        rest = await page_of(tenant, f"order=newest&kind=sent&limit=3&to={first['next']}")
        assert [event["message_id"] for event in rest["events"]] == ["1", "0"]
        assert rest["at_end"] is True
        assert (await tenant.refused("GET", f"{PREFIX}/journal/events?order=newest&wait_ms=5"))["field"] == "wait_ms"


async def test_a_page_of_events_can_be_limited_in_bytes(root: Tenant) -> None:
    orders = await root.queue("orders")
    for _ in range(3):
        await orders.send("x" * 1_000)
    for order in ("oldest", "newest"):
        page = await page_of(root, f"kind=sent&max_bytes=3000&order={order}")
        assert len(page["events"]) == 1
        assert page["at_end"] is False


@pytest.mark.parametrize("query", ["principal=x", "message=x", "seq=1", "order=newest", "max_bytes=5"])
async def test_choices_that_columns_do_not_know_are_refused_for_arrow(root: Tenant, query: str) -> None:
    refused = await root.refused("GET", f"{PREFIX}/journal/events?format=arrow&{query}")
    assert refused["field"] == query.partition("=")[0]
