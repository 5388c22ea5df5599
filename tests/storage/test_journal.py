"""Every change is an event, committed with the change itself, at a gapless offset, readable from any of them."""

import asyncio
from typing import Any

import msgspec
import pytest

from couriermq.core.errors import OffsetGone
from couriermq.core.events import Entry, Event, EventKind
from couriermq.core.model import Draft, Extend, Kind, LateAck, QueueSettings
from couriermq.storage.base import Span, newest_at
from tests.support.engines import TENANT, WHO, Rig

CONTROL = "_added", "_changed", "_deleted"


async def entries(rig: Rig, start: int = 0, limit: int = 10_000) -> list[Entry]:
    return await rig.store.read_events(start=start, limit=limit)


async def of_messages(rig: Rig) -> list[Event]:
    return [event for event in await rig.events() if not event.kind.endswith(CONTROL)]


async def last_event(rig: Rig) -> Event:
    return (await rig.events())[-1]


# -- what each kind holds -------------------------------------------------------------------------------------


async def test_a_sent_message_is_journaled_whole(rig: Rig) -> None:
    queue = await rig.create("orders")
    sent = await rig.send(
        "orders",
        b"\xffbody",
        content_type="text/plain",
        attributes={"a": 1, "b": "x"},
        group="g",
        trace="t",
        delay_ms=5,
    )
    event = await last_event(rig)
    assert msgspec.structs.replace(event, turn=None, sent_at=None) == Event(
        kind="sent",
        at=rig.now,
        tenant=TENANT,
        queue_id=queue.id,
        queue="orders",
        seq=sent.seq,
        message_id=sent.id,
        attempt=0,
        size=5,
        principal=WHO,
        detail={
            "content_type": "text/plain",
            "delay_ms": 5,
            "group": "g",
            "trace": "t",
            "body": b"\xffbody",
            "attributes": {"a": 1, "b": "x"},
        },
    )


async def test_a_queue_may_keep_bodies_and_attributes_out_of_the_journal(rig: Rig) -> None:
    await rig.create("orders", archive_bodies=False)
    await rig.send("orders", b"secret", attributes={"name": "secret"}, content_type="text/plain")
    event = await last_event(rig)
    assert (event.size, event.detail) == (6, {"content_type": "text/plain"})


async def test_the_life_of_a_message_is_told_in_order(rig: Rig) -> None:
    await rig.create("orders")
    sent = await rig.send("orders", b"12345")
    lease = await rig.receive_one("orders", lease_ms=100)
    await rig.settle("orders", Extend(lease.receipt, 200))
    await rig.release("orders", lease, delay_ms=50)
    await rig.pass_time(ms=50)
    await rig.receive_one("orders", lease_ms=100)
    expired_at = rig.now + 100
    await rig.pass_time(ms=900)
    last = await rig.receive_one("orders")
    await rig.ack("orders", last)
    told = await of_messages(rig)
    assert [(event.kind, event.attempt) for event in told] == [
        ("sent", 0), ("received", 1), ("extended", 1), ("released", 1), ("received", 2), ("lease_expired", 2),
        ("received", 3), ("acked", 3),
    ]  # fmt: skip
    assert {(event.seq, event.message_id, event.size, event.queue) for event in told} == {
        (sent.seq, sent.id, 5, "orders")
    }
    assert [event.detail for event in told if event.kind in {"extended", "released"}] == [
        {"lease_ms": 200}, {"delay_ms": 50},
    ]  # fmt: skip
    assert next(event.at for event in told if event.kind == "lease_expired") == expired_at
    assert [event.principal for event in told] == [WHO] * 5 + [None] + [WHO] * 2


async def test_a_death_is_told_with_its_reason_and_where_the_message_went(rig: Rig) -> None:
    graves = await rig.create("graves")
    orders = await rig.create("orders", max_attempts=1, dead_letter_queue="graves")
    await rig.send("orders")
    await rig.release("orders", await rig.receive_one("orders"))
    released, died = (await rig.events())[-2:]
    assert released.kind == EventKind.RELEASED
    assert (died.kind, died.queue_id, died.attempt) == (EventKind.DEAD_LETTERED, orders.id, 1)
    assert died.detail == {"reason": "attempts exhausted", "target_id": graves.id, "target": "graves"}


@pytest.mark.parametrize(("settings", "reason"), [({"max_attempts": 1}, "attempts exhausted"), ({}, "retention")])
async def test_a_discarded_message_is_told_with_its_reason(rig: Rig, settings: dict[str, Any], reason: str) -> None:
    await rig.create("orders", retention_ms=1_000, **settings)
    await rig.send("orders")
    await rig.receive_one("orders", lease_ms=500)
    await rig.pass_time(ms=2_000)
    event = await last_event(rig)
    assert (event.kind, event.detail) == (EventKind.DISCARDED, {"reason": reason})


async def test_removing_and_moving_are_told_with_who_did_it(rig: Rig) -> None:
    await rig.create("graves")
    bills = await rig.create("bills")
    await rig.create("orders", max_attempts=1, dead_letter_queue="graves")
    for name in "abcd":
        await rig.send("orders", id=name)
    await rig.release("orders", await rig.receive_one("orders"))
    await rig.broker.redrive(rig.queue("graves"), principal="r")
    await rig.broker.cancel(rig.queue("orders"), "b", principal="c")
    seq = (await rig.broker.read_message(rig.queue("orders"), "c")).seq
    await rig.broker.move(rig.queue("orders"), bills, seqs=[seq], principal="m")
    await rig.broker.purge(rig.queue("orders"), principal="p")
    told = (await of_messages(rig))[-5:]
    assert [(event.kind, event.message_id, event.principal, event.queue) for event in told] == [
        ("redriven", "a", "r", "graves"),
        ("cancelled", "b", "c", "orders"),
        ("moved", "c", "m", "orders"),
        ("purged", "a", "p", "orders"),
        ("purged", "d", "p", "orders"),
    ]
    assert told[2].detail == {"target_id": bills.id, "target": "bills"}


async def test_a_late_ack_is_told_as_such(rig: Rig) -> None:
    await rig.create("orders", late_ack=LateAck.ACCEPT)
    await rig.send("orders")
    lease = await rig.receive_one("orders", lease_ms=10)
    rig.clock.advance(ms=10)
    await rig.ack("orders", lease)
    event = await last_event(rig)
    assert (event.kind, event.detail) == (EventKind.ACKED, {"late": True})


async def test_the_control_plane_is_journaled_too(rig: Rig) -> None:
    queue = await rig.create("orders")
    queue = await rig.catalog.change_queue(queue, name="bills", settings=QueueSettings(delay_ms=7), principal=WHO)
    await rig.catalog.delete_queue(queue, principal=WHO)
    added, changed, deleted = [event for event in await rig.events() if event.queue_id == queue.id]
    assert [event.kind for event in (added, changed, deleted)] == ["queue_added", "queue_changed", "queue_deleted"]
    assert [event.queue for event in (added, changed, deleted)] == ["orders", "bills", "bills"]
    assert changed.detail
    assert changed.detail["settings"]["delay_ms"] == 7


async def test_secrets_never_reach_the_journal(rig: Rig) -> None:
    credential, secret = await rig.catalog.create_credential(TENANT, "app", principal=WHO)
    await rig.catalog.rotate_credential(credential, principal=WHO)
    told = repr(await rig.events())
    assert "credential_added" in told
    assert secret not in told
    assert "secret_hash" not in told
    assert repr(credential.secret_hash) not in told


async def test_what_changes_nothing_is_not_journaled(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("line", kind=Kind.FIFO)
    await rig.send("line", id="same")
    before = await rig.store.spans()
    await rig.send("line", id="same")
    await rig.receive("orders")
    await rig.settle("orders", Extend("made-up", 1))
    await rig.broker.purge(rig.queue("orders"), principal=WHO)
    await rig.broker.remove(rig.queue("orders"), [99], principal=WHO)
    await rig.store.advance(now=rig.now)
    assert await rig.store.spans() == before


async def test_a_deleted_queues_messages_are_told_as_purged(rig: Rig) -> None:
    queue = await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"x")] * 3)
    await rig.receive_one("orders")
    await rig.catalog.delete_queue(queue, principal=WHO)
    await rig.store.advance(now=rig.now)
    purged = await rig.events(EventKind.PURGED)
    assert [(event.queue_id, event.detail) for event in purged] == [(queue.id, {"reason": "queue deleted"})] * 3


async def test_messages_of_a_deleted_queue_are_swept_even_when_a_neighbour_fails(rig: Rig) -> None:
    queue = await rig.create("orders")
    await rig.send("orders")
    await rig.catalog.delete_queue(queue, principal=WHO)
    await asyncio.gather(
        rig.store.advance(now=rig.now),
        rig.store.receive(queue, limit=1, lease_ms=1, now=rig.now, principal=WHO),
        return_exceptions=True,
    )
    await rig.store.advance(now=rig.now)
    assert len(await rig.events(EventKind.PURGED)) == 1


# -- offsets --------------------------------------------------------------------------------------------------


async def busy_hour(rig: Rig) -> None:
    await rig.create("orders", max_attempts=2)
    for n in range(5):
        await rig.send_all("orders", [Draft(body=b"x")] * (n + 1))
        for lease in await rig.receive("orders", limit=3, lease_ms=100):
            await (rig.ack if n % 2 else rig.release)("orders", lease)
        await rig.pass_time(ms=100)


async def test_offsets_have_no_gaps(rig: Rig) -> None:
    await busy_hour(rig)
    span = (await rig.store.spans())[0]
    assert [entry.offset for entry in await entries(rig)] == list(range(span.oldest, span.next))
    assert span.oldest == 0


async def test_the_journal_can_be_read_from_any_offset_in_pieces_of_any_size(rig: Rig) -> None:
    await busy_hour(rig)
    everything = await entries(rig)
    for start in range(len(everything) + 1):
        assert await entries(rig, start) == everything[start:]
    for size in (1, 2, 7):
        pieces: list[Entry] = []
        while piece := await entries(rig, len(pieces), size):
            assert len(piece) <= size
            pieces += piece
        assert pieces == everything


async def test_reading_again_gives_the_same_events(rig: Rig) -> None:
    await busy_hour(rig)
    assert await entries(rig) == await entries(rig)


async def test_there_is_nothing_beyond_the_end(rig: Rig) -> None:
    await busy_hour(rig)
    end = (await rig.store.spans())[0].next
    assert await entries(rig, end) == []
    assert await entries(rig, end + 10**6) == []


async def test_events_of_operations_that_ran_together_do_not_mix(rig: Rig) -> None:
    await rig.create("orders")
    batches = [[Draft(body=f"{who}{n}".encode()) for n in range(20)] for who in "abc"]
    await asyncio.gather(*(rig.send_all("orders", batch) for batch in batches))
    bodies = [event.detail["body"].decode() for event in await rig.events(EventKind.SENT) if event.detail]
    assert sorted(bodies) == sorted(f"{who}{n}" for who in "abc" for n in range(20))
    for who in "abc":
        assert [body for body in bodies if body[0] == who] == [f"{who}{n}" for n in range(20)]


async def test_the_journal_survives_a_restart_and_goes_on_without_a_gap(rig: Rig) -> None:
    await busy_hour(rig)
    before = await entries(rig)
    await rig.restart()
    assert await entries(rig) == before
    await rig.send("orders")
    assert [entry.offset for entry in await entries(rig)] == list(range(len(before) + 1))


# -- trimming -------------------------------------------------------------------------------------------------


async def test_what_was_trimmed_is_gone_and_says_so(rig: Rig) -> None:
    await busy_hour(rig)
    everything = await entries(rig)
    middle = len(everything) // 2
    oldest = await rig.store.trim_events(before=middle)
    assert 0 < oldest <= middle
    assert (await rig.store.spans())[0] == Span(oldest=oldest, next=len(everything))
    assert await entries(rig, oldest) == everything[oldest:]
    with pytest.raises(OffsetGone) as gone:
        await entries(rig, oldest - 1)
    assert (gone.value.offset, gone.value.oldest) == (oldest - 1, oldest)


async def test_offsets_and_seqs_go_on_after_everything_was_trimmed(rig: Rig) -> None:
    await rig.create("orders")
    last = await rig.send("orders")
    await rig.ack("orders", await rig.receive_one("orders"))
    span = (await rig.store.spans())[0]
    await rig.store.trim_events(before=span.next)
    await rig.restart()
    assert (await rig.store.spans())[0].next == span.next
    assert (await rig.send("orders")).seq > last.seq
    newest = (await entries(rig, span.next))[0]
    assert (newest.offset, newest.event.kind) == (span.next, EventKind.SENT)


async def test_trimming_nothing_changes_nothing(rig: Rig) -> None:
    await busy_hour(rig)
    assert await rig.store.trim_events(before=0) == 0
    assert (await entries(rig))[0].offset == 0


async def test_the_journal_keeps_no_more_than_it_may(rig: Rig) -> None:
    await rig.create("orders")
    for n in range(20):
        await rig.send("orders", b"x" * 1_000, id=str(n))
    before = await rig.store.offset_keeping(5_000, 0)
    kept = await rig.store.read_events(start=before, limit=100)
    assert [entry.event.message_id for entry in kept] == ["16", "17", "18", "19"]
    assert await rig.store.offset_keeping(10**9, 0) == (await rig.store.spans())[0].oldest


async def test_an_instant_is_found_at_its_lowest_offset_though_a_later_commit_tells_of_an_earlier_one(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders")
    await rig.receive_one("orders", lease_ms=1_000)
    started = rig.now
    rig.clock.advance(ms=10_000)
    await rig.create("others")
    later = (await rig.store.spans())[0].next - 1
    await rig.store.advance(now=rig.now)  # only now is it written down that the lease ended nine seconds ago
    assert (await rig.events())[-1].kind == EventKind.LEASE_EXPIRED
    assert (await rig.store.offsets_at(started + 500))[0] == later
    assert (await rig.store.offsets_at(started + 5_000))[0] == later
    assert (await rig.store.offsets_at(rig.now + 1))[0] == (await rig.store.spans())[0].next
    assert (await rig.store.offsets_at(0))[0] == 0


async def test_the_newest_instant_is_found_while_another_node_trims_the_journal(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.create("orders")
    for _ in range(5):
        rig.clock.advance(ms=1_000)
        await rig.send("orders")
    (journal, *_), spans = rig.store.journals(), await rig.store.spans()

    async def trimmed(self: Any, *, start: int, limit: int) -> Any:
        monkeypatch.undo()
        for span in spans.values():
            await rig.store.trim_events(before=span.next - 1)
        return await self.read_events(start=start, limit=limit)

    monkeypatch.setattr(type(journal), "read_events", trimmed)
    assert await newest_at(rig.store) == rig.now
