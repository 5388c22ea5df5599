"""What a tenant can learn of the others from the numbers it sees: nothing."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from couriermq.dialects.native import limits, merged
from couriermq.journal import tenant_stream
from tests.support.inprocess import Response
from tests.support.native import ALL, PREFIX, Tenant, native_tenant

JOURNAL = f"{PREFIX}/journal"
EVENTS = f"{JOURNAL}/events"
PLAN = f"{JOURNAL}/plan"
MAY = tuple((action, ALL) for action in ("send", "receive", "browse", "manage", "stats", "audit"))


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        yield tenant


@pytest.fixture
async def acme(root: Tenant) -> AsyncIterator[Tenant]:
    """A tenant, as its own credential sees it."""
    yield await tenant_of(root, "acme")  # noqa: PT022


async def tenant_of(root: Tenant, name: str) -> Tenant:
    await root.ask("POST", f"{PREFIX}/tenants", {"id": name})
    return await Tenant(root.app, name).with_scopes(*MAY)


async def noise(root: Tenant, count: int) -> None:
    """What another tenant does meanwhile: it sends, and makes a queue."""
    if not count:
        return
    if not any(tenant.id == "noisy" for tenant in root.app.services.catalog.tenants()):
        await root.ask("POST", f"{PREFIX}/tenants", {"id": "noisy"})
    noisy = Tenant(root.app, "noisy")
    queue = await noisy.queue(f"q{len(root.app.services.catalog.queues('noisy'))}")
    await queue.ask("POST", "/messages", {"messages": [{"body": "x"}] * count})
    await queue.receive(limit=min(count, 100))


def batches(response: Response) -> list[tuple[list[dict[str, Any]], dict[bytes, bytes]]]:
    """The rows and the metadata of each record batch."""
    assert response.status == 200, response
    with pa.ipc.open_stream(response.body) as stream:
        return [(batch.to_pylist(), dict(metadata)) for batch, metadata in stream.iter_batches_with_custom_metadata()]


async def follow(tenant: Tenant, query: str) -> list[Any]:
    """Every event, page by page."""
    found: list[Any] = []
    page = await tenant.ask("GET", f"{EVENTS}?{query}")
    while True:
        found += page["events"]
        if page["at_end"]:
            return found
        page = await tenant.ask("GET", f"{EVENTS}?{query}&from={page['next']}")


# -- the same history, with others and without them -----------------------------------------------------------


class Watcher:
    """A tenant that does things and writes down all that it sees, with a name for each number and each opaque text.

    The first of a kind is called 1, and one that comes again has the same name: names are equal where numbers are.
    """

    OPAQUE = frozenset({"seq", "offset", "id", "message_id", "queue_id", "receipt", "next", "oldest", "from", "to"})
    OPAQUE |= {"first", "merged", "store", "seqs", "principal", "source_queue_id", "target_id", "queue"}

    def __init__(self, root: Tenant, tenant: Tenant) -> None:
        self.root, self.tenant = root, tenant
        self.seen: list[Any] = []
        self._names: dict[Any, int] = {}
        self._queue: Any = None
        self._position: str | None = None
        self._place: str | None = None
        self._receipts: list[str] = []
        self._seqs: list[int] = []

    async def begin(self) -> None:
        self._queue = await self.tenant.queue("orders", max_attempts=2)

    async def do(self, step: str) -> None:
        answer = await getattr(self, step)()
        self.seen.append((step, self._named(answer)))

    def _named(self, answer: Any, key: str = "") -> Any:
        if isinstance(answer, dict):
            return {name: self._named(value, name) for name, value in answer.items()}
        if isinstance(answer, list | tuple):
            return [self._named(value, key) for value in answer]
        if key in self.OPAQUE and answer is not None:
            assert isinstance(answer, str) or answer > 10**6, f"{key} {answer} counts something"
            return f"{key}-{self._names.setdefault(answer, len(self._names) + 1)}"
        return answer

    async def send(self) -> Any:
        sent = await self._queue.ask("POST", "/messages", {"messages": [{"body": "a"}, {"body": "b"}, {"json": 1}]})
        one = await self._queue.send()
        self._seqs = [one["seq"], *(result["seq"] for result in sent["results"])]
        return sent, one

    async def receive(self) -> Any:
        leases = await self._queue.receive(limit=2)
        self._receipts = [lease["receipt"] for lease in leases]
        return leases

    async def settle(self) -> Any:
        first, *rest = [*self._receipts, "nothing", "nothing"]
        await self._queue.call("POST", "/release", {"receipt": first})
        return (await self._queue.call("POST", "/ack", {"receipts": rest})).json()

    async def browse(self) -> Any:
        page = await self._queue.ask("GET", "/messages?limit=2")
        if page["next"] is None:
            return page
        return page, await self._queue.ask("GET", f"/messages?limit=2&after={page['next']}")

    async def remove(self) -> Any:
        return await self._queue.ask("POST", "/remove", {"seqs": [*self._seqs[:2], 5]}) if self._seqs else None

    async def look(self) -> Any:
        return await self.tenant.ask("GET", JOURNAL), await self.tenant.ask("GET", f"{JOURNAL}?last=3")

    async def read(self) -> Any:
        query = "limit=5" + (f"&from={self._position}" if self._position else "")
        page = await self.tenant.ask("GET", f"{EVENTS}?{query}")
        self._position = page["next"]
        return page

    async def read_merged(self) -> Any:
        page = await self.tenant.ask(
            "GET", f"{EVENTS}?merged=true&limit=4" + (f"&from={self._place}" if self._place else "")
        )
        self._place = page["next"]
        return page

    async def read_arrow(self) -> Any:
        query = "format=arrow&limit=7" + (f"&from={self._position}" if self._position else "")
        answer = await self.tenant.call("GET", f"{EVENTS}?{query}")
        found = batches(answer)
        for row in (row for rows, _ in found for row in rows):
            row["detail"] = row["detail"] and json.loads(row["detail"])
        return [(rows, sorted(metadata), metadata.get(b"courier-at-end")) for rows, metadata in found]

    async def plan(self) -> Any:
        return await self.tenant.ask("GET", f"{PLAN}?rows=4" + (f"&from={self._position}" if self._position else ""))

    async def count(self) -> Any:
        return await self._queue.ask("GET", "/counters")

    async def audit(self) -> Any:
        return await self.tenant.ask("GET", "/audit?limit=3")


STEPS = ("send", "receive", "settle", "browse", "remove", "look", "read", "read_merged", "read_arrow", "plan")
MORE_STEPS = ("count", "audit")


async def seen_by_a_tenant(steps: list[tuple[str, int]], *, with_noise: bool) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        async with native_tenant(Path(folder)) as root:
            await noise(root, 7 if with_noise else 0)
            watcher = Watcher(root, await tenant_of(root, "acme"))
            await watcher.begin()
            for step, count in steps:
                await watcher.do(step)
                await noise(root, count if with_noise else 0)
            return watcher.seen


@settings(max_examples=8, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(STEPS + MORE_STEPS), st.sampled_from((0, 1, 30))), min_size=3, max_size=12)
)
def test_a_tenant_sees_the_same_whatever_others_do(steps: list[tuple[str, int]]) -> None:
    with small_chunks():
        quiet = asyncio.run(seen_by_a_tenant([("send", 0), *steps], with_noise=False))
        loud = asyncio.run(seen_by_a_tenant([("send", 50), *steps], with_noise=True))
    assert loud == quiet


@contextlib.contextmanager
def small_chunks() -> Any:
    """Reads of a few events at a time, so that a few are enough to see where they end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "BATCH_EVENT_COUNT", 5)
        patch.setattr(merged, "LEAST_CHUNK", 5)
        patch.setattr(tenant_stream, "BATCH_ROWS", 3)
        yield


# -- messages -------------------------------------------------------------------------------------------------


async def test_a_message_has_one_number_wherever_the_tenant_sees_it(acme: Tenant) -> None:
    queue = await acme.queue("orders")
    seq = (await queue.send("x"))["seq"]
    (browsed,) = (await queue.ask("GET", "/messages"))["messages"]
    read = await queue.ask("GET", f"/messages/{browsed['id']}")
    lease = await queue.receive_one()
    released = await queue.ask("POST", "/release", {"receipt": lease["receipt"]})
    told = {event["seq"] for event in await follow(acme, "kind=sent&kind=received&kind=released")}
    assert {browsed["seq"], read["seq"], lease["message"]["seq"], released["seq"]} == told == {seq}


async def test_a_tenant_chooses_messages_by_the_numbers_that_it_was_shown(root: Tenant, acme: Tenant) -> None:
    queue, other = await acme.queue("orders"), await acme.queue("other")
    first, second, third = [(await queue.send(body))["seq"] for body in "abc"]
    assert await queue.ask("POST", "/move", {"target": "other", "seqs": [second]}) == {"count": 1}
    assert await other.bodies() == ["b"]
    assert await queue.ask("POST", "/remove", {"seqs": [first, second, 99, 2**60]}) == {"seqs": [first]}
    assert await queue.bodies() == ["c"]
    assert (await queue.refused("POST", "/remove", {"seqs": [0]}))["status"] == 400
    true = (await queue.of(Tenant(root.app, "acme")).ask("GET", "/messages"))["messages"][0]["seq"]
    assert true != third
    assert await queue.ask("POST", "/remove", {"seqs": [true]}) == {"seqs": []}


async def test_claimed_messages_have_the_same_numbers(acme: Tenant) -> None:
    queue = await acme.queue("orders")
    seqs = [(await queue.send(str(n)))["seq"] for n in range(3)]
    epoch = (await queue.ask("POST", "/jobs/j/open"))["epoch"]
    await queue.ask("PUT", "/jobs/j/claims/1", {"epoch": epoch})
    held = (await queue.ask("GET", f"/jobs/j/claims/1?epoch={epoch}"))["held"]
    answer = await queue.call("GET", f"/jobs/j/claims/1?epoch={epoch}&format=arrow")
    columns = pa.ipc.open_stream(answer.body).read_all()
    assert [one["message"]["seq"] for one in held] == columns["seq"].to_pylist() == seqs


async def test_pages_of_a_queue_end_with_a_text_that_tells_nothing(root: Tenant, acme: Tenant) -> None:
    queue = await acme.queue("orders")
    await queue.ask("POST", "/messages", {"messages": [{"body": str(n)} for n in range(5)]})
    page = await queue.ask("GET", "/messages?limit=3")
    assert not page["next"].replace("-", "").isdecimal()
    rest = await queue.ask("GET", f"/messages?limit=3&after={page['next']}")
    assert [message["body"] for message in page["messages"] + rest["messages"]] == list("01234")
    true = (await queue.of(Tenant(root.app, "acme")).ask("GET", "/messages?limit=3"))["next"]
    assert (await queue.refused("GET", f"/messages?after={true}"))["field"] == "after"


# -- the journal ----------------------------------------------------------------------------------------------


async def test_events_of_a_tenant_are_all_there_under_numbers_of_their_own(root: Tenant, acme: Tenant) -> None:
    queue = await acme.queue("orders")
    for number in range(20):
        await queue.send(str(number))
        await noise(root, number % 4)
    true = (await root.ask("GET", f"{EVENTS}?tenant=acme&limit=9999"))["events"]
    told = await follow(acme, "limit=3")
    assert [event["kind"] for event in told] == [event["kind"] for event in true]
    assert [(event["message_id"], event["at"]) for event in told] == [(e["message_id"], e["at"]) for e in true]
    offsets, seqs = [event["offset"] for event in told], {event["seq"] for event in told} - {None}
    assert len(set(offsets)) == len(told)
    assert sorted(offsets) != offsets
    assert set(offsets).isdisjoint(event["offset"] for event in true)
    assert seqs.isdisjoint(event["seq"] for event in true)


async def test_a_page_has_as_many_of_the_tenants_events_as_were_asked_for(root: Tenant, acme: Tenant) -> None:
    queue = await acme.queue("orders")
    for _ in range(6):
        await queue.send()
        await noise(root, 40)
    page = await acme.ask("GET", f"{EVENTS}?kind=sent&limit=4")
    assert (len(page["events"]), page["at_end"]) == (4, False)
    rest = await acme.ask("GET", f"{EVENTS}?kind=sent&limit=4&from={page['next']}")
    assert (len(rest["events"]), rest["at_end"]) == (2, True)
    again = await acme.ask("GET", f"{EVENTS}?from={page['next']}&to={rest['next']}&kind=sent")
    assert again["events"] == rest["events"]


@pytest.mark.parametrize("form", ["json", "arrow"])
async def test_a_full_page_does_not_tell_whether_others_have_written_since(
    root: Tenant, acme: Tenant, form: str
) -> None:
    queue = await acme.queue("orders")
    await queue.send()
    for count in (0, 5):
        await noise(root, count)
        answer = await acme.call("GET", f"{EVENTS}?kind=sent&limit=1&format={form}")
        at_end = answer.json()["at_end"] if form == "json" else batches(answer)[-1][1][b"courier-at-end"] == b"true"
        assert at_end is False


async def test_a_long_search_goes_on_with_the_next_call(
    root: Tenant, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JSON_SCAN_COUNT", 20)
    monkeypatch.setattr(limits, "ARROW_SCAN_COUNT", 20)
    queue = await acme.queue("orders")
    await noise(root, 100)
    await queue.send("found")
    assert [event["kind"] for event in await follow(acme, "kind=sent&limit=5")] == ["sent"]
    found, position = [], (await acme.ask("GET", JOURNAL))["oldest"]
    for _ in range(50):
        *some, (_, metadata) = batches(await acme.call("GET", f"{EVENTS}?format=arrow&kind=sent&from={position}"))
        found += [row for rows, _ in some for row in rows]
        position = metadata[b"courier-next"].decode()
        if metadata[b"courier-at-end"] == b"true":
            break
    assert [row["kind"] for row in found] == ["sent"]


async def test_batches_of_an_arrow_stream_end_by_the_tenants_own_events(
    root: Tenant, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_stream, "BATCH_ROWS", 4)
    monkeypatch.setattr(limits, "BATCH_EVENT_COUNT", 7)
    queue = await acme.queue("orders")
    for _ in range(10):
        await queue.send("x")
        await noise(root, 9)
    start = (await acme.ask("GET", f"{JOURNAL}?last=10"))["offset"]
    whole = batches(await acme.call("GET", f"{EVENTS}?format=arrow&from={start}"))
    assert [len(rows) for rows, _ in whole] == [4, 4, 2, 0]
    assert whole[-1][1][b"courier-at-end"] == b"true"
    some = batches(await acme.call("GET", f"{EVENTS}?format=arrow&limit=6&from={start}"))
    assert [len(rows) for rows, _ in some] == [4, 2, 0]
    assert some[-1][1][b"courier-at-end"] == b"false"
    following = whole[0][1][b"courier-next"].decode()
    rest = batches(await acme.call("GET", f"{EVENTS}?format=arrow&from={following}"))
    assert [row for rows, _ in rest for row in rows] == [row for rows, _ in whole[1:] for row in rows]


async def test_batches_of_large_bodies_are_small(acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_stream, "BATCH_BYTES", 2_500)
    queue = await acme.queue("orders")
    await queue.ask("POST", "/messages", {"messages": [{"body": "x" * 1_000}] * 5})
    found = batches(await acme.call("GET", f"{EVENTS}?format=arrow&kind=sent"))
    assert [len(rows) for rows, _ in found] == [2, 2, 1, 0]


async def test_columns_of_an_arrow_stream_are_those_that_were_asked_for(acme: Tenant) -> None:
    await (await acme.queue("orders")).send("x")
    ((sent,), _), _ = batches(await acme.call("GET", f"{EVENTS}?format=arrow&kind=sent&columns=body,kind"))
    assert sent == {"body": b"x", "kind": "sent"}
    assert "courier-next" not in (await acme.call("GET", f"{EVENTS}?format=arrow")).headers


async def test_json_and_arrow_show_the_same_numbers(acme: Tenant) -> None:
    await (await acme.queue("orders")).send("x")
    listed = await follow(acme, "")
    rows = [row for some, _ in batches(await acme.call("GET", f"{EVENTS}?format=arrow")) for row in some]
    assert [(row["offset"], row["seq"], row["message_id"]) for row in rows] == [
        (event["offset"], event["seq"], event["message_id"]) for event in listed
    ]


async def test_only_root_sees_the_key_of_a_queue(root: Tenant, acme: Tenant) -> None:
    await acme.queue("orders")
    (true,) = (await root.ask("GET", f"{EVENTS}?tenant=acme&kind=queue_added"))["events"]
    (told,) = await follow(acme, "kind=queue_added")
    assert told["detail"] == {name: value for name, value in true["detail"].items() if name != "key"}
    ((row,), _), _ = batches(await acme.call("GET", f"{EVENTS}?format=arrow&kind=queue_added"))
    assert '"key"' not in row["detail"]
    assert '"name":"orders"' in row["detail"]


async def test_a_plan_divides_by_the_tenants_own_events(root: Tenant, acme: Tenant) -> None:
    queue = await acme.queue("orders")
    for _ in range(10):
        await queue.send("x")
        await noise(root, 11)
    plan = await acme.ask("GET", f"{PLAN}?kind=sent&rows=4")
    assert ([one["count"] for one in plan["partitions"]], plan["at_end"]) == ([4, 4, 2], True)
    pieces = [
        (await acme.ask("GET", f"{EVENTS}?kind=sent&from={one['from']}&to={one['to']}"))["events"]
        for one in plan["partitions"]
    ]
    assert [event for piece in pieces for event in piece] == await follow(acme, "kind=sent")
    first = await acme.ask("GET", f"{PLAN}?kind=sent&rows=4&limit=1")
    assert ([one["count"] for one in first["partitions"]], first["at_end"]) == ([4], False)
    rest = await acme.ask("GET", f"{PLAN}?kind=sent&rows=4&from={first['next']}")
    assert [one["count"] for one in rest["partitions"]] == [4, 2]


async def test_a_plan_of_nothing_has_one_empty_partition(acme: Tenant) -> None:
    end = (await acme.ask("GET", JOURNAL))["next"]
    plan = await acme.ask("GET", f"{PLAN}?from={end}")
    assert ([one["count"] for one in plan["partitions"]], plan["at_end"]) == ([0], True)


async def test_root_may_plan_with_offsets(root: Tenant) -> None:
    end = (await root.ask("GET", JOURNAL))["next"]
    plan = await root.ask("GET", f"{PLAN}?rows=1000")
    assert plan == {"partitions": [{"from": 0, "to": end, "count": end}], "next": end, "at_end": True}


async def test_reading_can_begin_at_a_time_or_before_the_end(root: Tenant, acme: Tenant) -> None:
    queue = await acme.queue("orders")
    await queue.send("early")
    root.clock.advance(ms=1_000)
    now = root.clock.now()
    await noise(root, 20)
    await queue.send("late")
    await noise(root, 20)
    for query, kinds in ((f"at={now}", ["sent"]), ("last=2", ["sent", "sent"]), ("last=99999", None)):
        position = (await acme.ask("GET", f"{JOURNAL}?{query}"))["offset"]
        found = [event["kind"] for event in await follow(acme, f"from={position}")]
        assert found == kinds or kinds is None
    assert (await acme.refused("GET", f"{JOURNAL}?at=1&last=1"))["field"] == "last"


async def test_the_ends_of_the_journal_tell_not_even_whether_it_has_grown(acme: Tenant) -> None:
    first, second = await acme.ask("GET", JOURNAL), await acme.ask("GET", JOURNAL)
    assert len({first["oldest"], first["next"], second["oldest"], second["next"]}) == 4
    assert {len(text) for text in (first["oldest"], first["next"], second["oldest"], second["next"])} == {60}


async def test_a_position_that_is_gone_names_no_offset(root: Tenant, acme: Tenant) -> None:
    queue = await acme.queue("orders")
    oldest = (await acme.ask("GET", JOURNAL))["oldest"]
    await queue.send("x")
    await root.app.store.trim_events(before=5)
    for path in (
        f"{EVENTS}?format=json&from={oldest}",
        f"{EVENTS}?format=arrow&from={oldest}",
        f"{PLAN}?from={oldest}",
    ):
        problem = await acme.refused("GET", path)
        assert (problem["status"], problem["type"]) == (410, "urn:courier:problem:offset-gone")
        assert not any(letter.isdecimal() for letter in problem["detail"])
    assert (await follow(acme, ""))[-1]["kind"] == "sent"


@pytest.mark.parametrize("name", ["from", "to"])
async def test_a_position_must_be_the_tenants_own(root: Tenant, acme: Tenant, name: str) -> None:
    shop = await tenant_of(root, "shop")
    theirs = (await shop.ask("GET", JOURNAL))["next"]
    ours = (await acme.ask("GET", JOURNAL))["next"]
    for text in ("0", "5", theirs, ours[:-1], ours[::-1], ours + "A", "", "%F0%9F%92%A9", "A" * 5_000):
        for path in (EVENTS, PLAN, f"{PREFIX}/tenants/acme/audit"):
            if name == "to" and path.endswith("audit"):
                continue
            problem = await acme.refused("GET", f"{path}?{name}={text}")
            assert (problem["status"], problem["field"]) == (400, name)
    assert (await root.refused("GET", f"{EVENTS}?from={ours}"))["field"] == "from"


async def test_segments_are_for_root(acme: Tenant) -> None:
    assert (await acme.refused("GET", f"{JOURNAL}/segments"))["status"] == 403


async def test_audit_events_are_read_by_position(root: Tenant, acme: Tenant) -> None:
    for name in ("a", "b", "c"):
        await acme.queue(name)
        await noise(root, 3)
    found, page = [], await acme.ask("GET", "/audit?kind=queue_added&limit=2")
    while not page["at_end"]:
        found += page["events"]
        page = await acme.ask("GET", f"/audit?kind=queue_added&limit=2&from={page['next']}")
    found += page["events"]
    assert [event["queue"] for event in found] == ["a", "b", "c"]
    assert all("key" not in event["detail"] for event in found)
