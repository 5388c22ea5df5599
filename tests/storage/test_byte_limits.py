"""Responses and commits are limited in bytes, not only in number."""

import asyncio
from collections.abc import Sequence

import pytest

from couriermq.admission import Admission
from couriermq.core import limits
from couriermq.core.errors import CourierError, Invalid
from couriermq.core.events import Event
from couriermq.core.model import Attribute, Draft, Kind, Lease, Published, Sent
from couriermq.core.shards import Newest
from couriermq.storage.base import Parcel
from tests.support.engines import TENANT, WHO, Rig

MIB = 1024 * 1024
LARGE = 3 * MIB


def total(leases: list[Lease]) -> int:
    return sum(limits.weight_of(lease.message.body, lease.message.attributes) for lease in leases)


async def fill(rig: Rig, name: str, count: int, size: int, **parts: object) -> None:
    for number in range(count):
        await rig.send(name, bytes([number % 256]) * size, **parts)


@pytest.mark.parametrize("size", [100, 20_000, 200_000, LARGE])
async def test_a_receive_returns_as_many_messages_as_fit_and_leases_no_others(rig: Rig, size: int) -> None:
    await rig.create("orders")
    count = min(1_000, 2 * limits.RESPONSE_BYTES // size + 3)
    await rig.send_all("orders", [Draft(body=b"x" * size) for _ in range(count)])
    leases = await rig.receive("orders", limit=1_000)
    if count * size < limits.RESPONSE_BYTES:
        assert len(leases) == count
    else:
        assert total(leases) <= limits.RESPONSE_BYTES < total(leases) + size + 100_000
    counters = await rig.counters("orders")
    assert (counters.leased_count, counters.ready_count) == (len(leases), count - len(leases))


async def test_repeated_receives_return_every_message_once_in_order(rig: Rig) -> None:
    await rig.create("orders")
    await fill(rig, "orders", 7, LARGE)
    found: list[int] = []
    while leases := await rig.receive("orders", limit=1_000):
        assert len(leases) <= limits.RESPONSE_BYTES // LARGE
        found += [lease.message.body[0] for lease in leases]
        for lease in leases:
            await rig.ack("orders", lease)
    assert found == list(range(7))


async def test_single_and_shared_rows_keep_their_order_where_a_receive_is_cut(rig: Rig) -> None:
    """Some messages wait as they came, others have been released before: the limit cuts the line of both."""
    await rig.create("orders")
    await fill(rig, "orders", 2, LARGE)
    for lease in await rig.receive("orders", limit=2):
        await rig.release("orders", lease, delay_ms=1_000)
    await rig.pass_time(ms=2_000)
    await fill(rig, "orders", 4, LARGE)
    found: list[tuple[int, int]] = []
    while leases := await rig.receive("orders", limit=1_000):
        found += [(lease.message.attempts, lease.message.body[0]) for lease in leases]
    assert found == [(2, 0), (2, 1), (1, 0), (1, 1), (1, 2), (1, 3)]


async def test_a_message_larger_than_the_limit_is_returned_alone(rig: Rig) -> None:
    await rig.create("orders", max_body_bytes=limits.BODY_BYTES)
    await rig.send("orders", b"a" * (limits.RESPONSE_BYTES + 1))
    await rig.send("orders", b"b")
    first = await rig.receive("orders", limit=10)
    second = await rig.receive("orders", limit=10)
    assert [[lease.message.body[:1] for lease in leases] for leases in (first, second)] == [[b"a"], [b"b"]]


async def test_attributes_count_as_bytes(rig: Rig) -> None:
    await rig.create("orders")
    heavy: dict[str, Attribute] = {"note": "x" * 250_000}
    await rig.send_all("orders", [Draft(body=b"", attributes=heavy) for _ in range(60)])
    leases = await rig.receive("orders", limit=1_000)
    assert 1 < len(leases) < 60
    assert total(leases) <= limits.RESPONSE_BYTES
    page = await rig.broker.browse(rig.queue("orders"), limit=1_000)
    assert 1 < len(page.messages) < 60
    assert len(await rig.browse("orders")) == 60


async def test_a_fifo_receive_is_cut_inside_a_group_and_between_groups(rig: Rig) -> None:
    await rig.create("orders", kind=Kind.FIFO)
    for group in ("a", "b"):
        await fill(rig, "orders", 2, LARGE, group=group)
    first = await rig.receive("orders", limit=10)
    assert [lease.message.group for lease in first] == ["a", "a"]
    second = await rig.receive("orders", limit=10)
    assert [lease.message.group for lease in second] == ["b", "b"]
    await rig.create("one", kind=Kind.FIFO)
    await fill(rig, "one", 4, LARGE, group="a")
    found: list[int] = []
    while leases := await rig.receive("one", limit=10):
        assert len(leases) == 2
        found += [lease.message.body[0] for lease in leases]
        for lease in leases:
            await rig.ack("one", lease)
    assert found == [0, 1, 2, 3]


async def test_receivers_that_ask_together_share_all_messages_without_an_empty_answer(rig: Rig) -> None:
    """One commit gives out a limited number of bytes; receivers that it leaves empty-handed get the next ones."""
    for name in ("orders", "bills"):
        await rig.create(name)
        await fill(rig, name, 8, LARGE)
    asked = [rig.receive(name, limit=1_000) for name in ("orders", "bills") for _ in range(4)]
    answers = await asyncio.gather(*asked)
    assert [len(leases) for leases in answers] == [2] * 8
    assert len({lease.receipt for leases in answers for lease in leases}) == 16


async def test_a_receiver_that_waits_hears_of_messages_that_did_not_fit_another_response(rig: Rig) -> None:
    await rig.create("orders")
    waiting = [asyncio.create_task(rig.receive("orders", limit=1_000, wait_ms=10_000)) for _ in range(2)]
    for _ in waiting:
        await rig.arrivals.waits.get()
    await rig.send_all("orders", [Draft(body=b"x" * LARGE) for _ in range(4)])
    assert [len(leases) for leases in await asyncio.gather(*waiting)] == [2, 2]


async def test_a_page_of_a_browse_ends_before_the_message_that_does_not_fit(rig: Rig) -> None:
    await rig.create("orders")
    await fill(rig, "orders", 5, LARGE, id="same")
    for found in (await rig.browse("orders"), await rig.browse("orders", id="same")):
        assert [message.body[0] for message in found] == [0, 1, 2, 3, 4]
    page = await rig.broker.browse(rig.queue("orders"), limit=1_000)
    assert len(page.messages) == 2


async def test_sends_wait_for_one_another_by_their_bytes_and_all_are_stored(rig: Rig) -> None:
    await rig.create("orders")
    watched = Watched(rig)
    drafts = [Draft(body=b"x" * LARGE) for _ in range(20)]
    small = asyncio.create_task(rig.send("orders", b"small"))
    sent = await asyncio.gather(*(rig.send_one("orders", draft) for draft in drafts))
    await small
    assert len({one.seq for one in sent}) == 20
    assert watched.most <= limits.COMMIT_BYTES + 5
    assert (await rig.counters("orders")).ready_count == 21


async def test_a_sender_that_goes_away_while_it_waits_gives_its_room_back(rig: Rig) -> None:
    await rig.create("orders")
    rig.broker.admission = Admission(at_once=MIB)
    body = b"x" * (MIB - 100)
    tasks = [asyncio.create_task(rig.send("orders", body)) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.wait(tasks)
    assert [task.cancelled() for task in tasks] == [False, True, False]
    await asyncio.gather(*(rig.send("orders", body) for _ in range(3)))
    assert (await rig.counters("orders")).ready_count == 5


async def test_a_step_of_a_purge_is_limited_in_bytes_and_the_purge_takes_all(rig: Rig) -> None:
    queue = await rig.create("orders")
    await fill(rig, "orders", 12, LARGE)
    for lease in await rig.receive("orders", limit=2):
        await rig.release("orders", lease)
    step = await rig.store.purge(
        queue, upto=Newest(2**44, rig.now), after=None, limit=1_000, now=rig.now, principal=WHO
    )
    assert 1 <= step.count <= limits.COMMIT_BYTES // LARGE
    assert step.next is not None
    await rig.broker.purge(queue, principal=WHO)
    counters = await rig.counters("orders")
    assert (counters.ready_count, counters.leased_count) == (0, 0)


async def test_a_read_of_a_claim_is_limited_in_bytes_and_says_where_to_go_on(rig: Rig) -> None:
    queue = await rig.create("orders")
    await fill(rig, "orders", 7, LARGE)
    job = await rig.claims.open(queue, "spark")
    await rig.claims.claim(queue, "spark", 1, epoch=job.epoch, limit=10, principal=WHO)
    found: list[tuple[int, int]] = []
    start: int | None = 0
    while start is not None:
        part = await rig.claims.read(queue, "spark", 1, epoch=job.epoch, start=start, stop=10)
        assert len(part.messages) <= limits.RESPONSE_BYTES // LARGE + 1
        found += [(position, message.body[0]) for position, message in part.messages]
        start = part.next
    assert found == [(number, number) for number in range(7)]


@pytest.mark.parametrize("delay_ms", [None, 1], ids=["as they came", "alone"])
async def test_attributes_count_as_bytes_where_a_claim_is_read(rig: Rig, delay_ms: int | None) -> None:
    queue = await rig.create("orders")
    notes = [f"{number:02}" + "x" * 250_000 for number in range(60)]
    for first in range(0, 60, 20):
        some = notes[first : first + 20]
        await rig.send_all("orders", [Draft(body=b"", attributes={"note": note}, delay_ms=delay_ms) for note in some])
    await rig.pass_time(ms=10)
    job = await rig.claims.open(queue, "spark")
    await rig.claims.claim(queue, "spark", 1, epoch=job.epoch, limit=60, principal=WHO)
    found: list[tuple[int, str]] = []
    start: int | None = 0
    while start is not None:
        part = await rig.claims.read(queue, "spark", 1, epoch=job.epoch, start=start, stop=60)
        assert 250_000 * len(part.messages) <= limits.RESPONSE_BYTES
        found += [(position, str(message.attributes["note"])) for position, message in part.messages]
        start = part.next
    assert found == list(enumerate(notes))


async def test_a_batch_with_many_copies_is_stored_in_several_commits(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = await rig.create("orders")
    for number in range(3):
        await rig.catalog.create_listener(queue, f"l{number}", "https://example.com/", principal=WHO)
    monkeypatch.setattr(limits, "COPY_COUNT", 12)
    watched = Watched(rig)
    sent = await rig.send_all("orders", [Draft(body=b"%d" % number) for number in range(20)])
    assert all(isinstance(one, Sent) for one in sent)
    assert watched.most_parcels <= 4 * 4
    assert [message.body for message in await rig.browse("orders")] == [b"%d" % number for number in range(20)]
    for listener in rig.catalog.listeners_of(queue):
        assert (await rig.broker.counters(rig.catalog.outbox(listener))).ready_count == 20


async def test_a_message_whose_copies_are_too_many_bytes_is_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = await rig.create("orders")
    await rig.catalog.create_listener(queue, "shop", "https://example.com/", principal=WHO)
    monkeypatch.setattr(limits, "COPY_BYTES", 1_000)
    with pytest.raises(Invalid, match="its copies are 1002 bytes"):
        await rig.send("orders", b"x" * 501)
    await rig.send("orders", b"x" * 500)


async def test_a_publication_with_many_copies_is_stored_in_several_commits(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = await rig.catalog.create_exchange(TENANT, "all", principal=WHO)
    for number in range(3):
        queue = await rig.create(f"q{number}")
        await rig.catalog.bind(exchange, queue, principal=WHO)
    monkeypatch.setattr(limits, "COPY_COUNT", 12)
    watched = Watched(rig)
    outcomes = await rig.broker.publish(exchange, [Draft(body=b"x") for _ in range(20)], principal=WHO)
    assert all(isinstance(one, Published) for one in outcomes)
    assert watched.most_parcels <= 12
    assert [(await rig.counters(f"q{number}")).ready_count for number in range(3)] == [20] * 3


class Watched:
    """The most bytes of sends that the store had in hand at one time."""

    def __init__(self, rig: Rig) -> None:
        self.most = self.most_parcels = self._now = 0
        self._send = rig.store.send
        rig.store.send = self.send  # type: ignore[method-assign]

    async def send(
        self, parcels: Sequence[Parcel], *, now: int, principal: str, events: Sequence[Event] = ()
    ) -> list[Sent | CourierError]:
        size = sum(len(parcel.draft.body) for parcel in parcels)
        self.most_parcels = max(self.most_parcels, len(parcels))
        self._now += size
        self.most = max(self.most, self._now)
        try:
            return await self._send(parcels, now=now, principal=principal, events=events)
        finally:
            self._now -= size
