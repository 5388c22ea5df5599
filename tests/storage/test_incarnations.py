"""A restore begins a new incarnation: nothing that an earlier one gave out is accepted, no number is given twice."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.core.errors import Fenced, InvalidReceipt, JobNotFound, LeaseLost, MessageNotFound
from couriermq.core.events import EventKind
from couriermq.core.incarnations import JUMP
from couriermq.core.model import Ack, Draft, Kind, LateAck, State
from tests.support.engines import WHO, Rig, back_up, forget, opened_backup


@pytest.fixture
async def copies(tmp_path: Path) -> AsyncIterator[list[Rig]]:
    """Rigs that a test opens on copies; closed at its end."""
    opened: list[Rig] = []
    yield opened
    for copy in opened:
        await copy.close()
    forget(tmp_path / "copy")


async def restored(rig: Rig, tmp_path: Path, copies: list[Rig]) -> Rig:
    copy = await opened_backup(rig, tmp_path / "copy")
    copies.append(copy)
    return copy


async def test_a_store_keeps_its_identity_across_restarts(rig: Rig) -> None:
    before = rig.store.identity
    await rig.create("orders")
    await rig.restart()
    assert rig.store.identity == before
    assert (before.present.number, before.present.tag, before.jumps) == (1, 0, ())


async def test_a_restore_begins_a_new_incarnation_of_the_same_store(
    rig: Rig, tmp_path: Path, copies: list[Rig]
) -> None:
    await rig.create("orders")
    await back_up(rig, tmp_path / "copy")
    copy = await restored(rig, tmp_path, copies)
    assert copy.store.identity.store == rig.store.identity.store
    assert copy.store.identity.present.number == 2
    assert copy.store.stamp != rig.store.stamp
    before = copy.store.identity
    await copy.restart()
    assert copy.store.identity == before  # once only


async def test_a_receipt_from_before_a_restore_settles_nothing(rig: Rig, tmp_path: Path, copies: list[Rig]) -> None:
    await rig.create("orders", late_ack=LateAck.ACCEPT)
    await rig.send("orders", b"held")
    held = await rig.receive_one("orders")
    await back_up(rig, tmp_path / "copy")
    await rig.send("orders", b"lost")
    lost = await rig.receive_one("orders")
    copy = await restored(rig, tmp_path, copies)
    await copy.send("orders", b"somebody else's")
    taken = await copy.receive("orders", limit=10)
    assert {lease.message.body for lease in taken} == {b"held", b"somebody else's"}
    for lease in (held, lost):
        with pytest.raises(LeaseLost):
            await copy.ack("orders", lease)
        with pytest.raises(LeaseLost):
            await copy.release("orders", lease)
        with pytest.raises(LeaseLost):
            await copy.extend("orders", lease, lease_ms=1_000)
    assert (await copy.counters("orders")).leased_count == 2
    outcomes = await copy.settle("orders", Ack(taken[0].receipt), Ack(lost.receipt), Ack("made-up"))
    assert [type(outcome).__name__ for outcome in outcomes] == ["Settled", "LeaseLost", "InvalidReceipt"]
    assert issubclass(InvalidReceipt, Exception)


async def test_a_job_of_before_a_restore_claims_and_acks_nothing(rig: Rig, tmp_path: Path, copies: list[Rig]) -> None:
    queue = await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"%d" % n) for n in range(3)])
    held = await rig.claims.open(queue, "kept")
    await back_up(rig, tmp_path / "copy")
    lost = [await rig.claims.open(queue, name) for name in ("kept", "new")]
    copy = await restored(rig, tmp_path, copies)
    queue, claims = copy.queue("orders"), copy.claims
    for name, epoch in (("kept", held.epoch), ("kept", lost[0].epoch), ("new", lost[1].epoch)):
        with pytest.raises((Fenced, JobNotFound)):
            await claims.claim(queue, name, 1, epoch=epoch, limit=9, principal=WHO)
    for name, epoch in (("kept", lost[0].epoch), ("new", lost[1].epoch)):
        opened = await claims.open(queue, name)
        assert opened.epoch > epoch
        claim = await claims.claim(queue, name, 1, epoch=opened.epoch, limit=1, principal=WHO)
        assert claim.count == 1
        with pytest.raises(Fenced):
            await claims.ack(queue, name, upto=1, epoch=epoch, principal=WHO)
        with pytest.raises(Fenced):
            await claims.read(queue, name, 1, epoch=epoch, start=0, stop=1)
    assert (await copy.counters("orders")).total_count == 3


async def test_messages_keep_their_ids_and_lost_ones_are_not_found(rig: Rig, tmp_path: Path, copies: list[Rig]) -> None:
    await rig.create("orders")
    kept = await rig.send("orders", b"kept")
    await back_up(rig, tmp_path / "copy")
    lost = await rig.send("orders", b"lost")
    copy = await restored(rig, tmp_path, copies)
    fresh = [await copy.send("orders", b"fresh") for _ in range(3)]
    found = await copy.broker.read_message(copy.queue("orders"), kept.id)
    assert (found.body, found.seq) == (b"kept", kept.seq)
    with pytest.raises(MessageNotFound):
        await copy.broker.read_message(copy.queue("orders"), lost.id)
    assert lost.id not in {one.id for one in fresh}
    assert min(one.seq for one in fresh) > lost.seq + JUMP // 2


async def test_leases_end_at_a_restore_and_count_as_attempts(rig: Rig, tmp_path: Path, copies: list[Rig]) -> None:
    await rig.create("orders")
    await rig.create("line", kind=Kind.FIFO)
    await rig.send_all("orders", [Draft(body=b"x")] * 3)
    await rig.send("line", group="g")
    await rig.receive("orders", limit=2, lease_ms=3_600_000)
    await rig.receive_one("line", lease_ms=3_600_000)
    await back_up(rig, tmp_path / "copy")
    copy = await restored(rig, tmp_path, copies)
    assert {message.state for message in await copy.browse("orders")} == {State.READY}
    taken = await copy.receive("orders", limit=10)
    assert sorted(lease.message.attempts for lease in taken) == [1, 2, 2]
    assert (await copy.receive_one("line")).message.attempts == 2
    assert len(await copy.events(EventKind.LEASE_EXPIRED)) == 3
    assert await copy.store.check() == []


async def test_the_journal_is_read_on_across_the_jump(rig: Rig, tmp_path: Path, copies: list[Rig]) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"x")] * 3)
    await back_up(rig, tmp_path / "copy")
    told = await rig.events()
    copy = await restored(rig, tmp_path, copies)
    await copy.send("orders", b"fresh")
    events = await copy.events()
    assert events[: len(told)] == told
    assert [event.kind for event in events[len(told) :]] == ["incarnation_began", "sent"]
    jump = copy.store.jumps[0]
    into_jump = await copy.store.read_events(start=0, limit=jump.end + 5)
    assert [entry.offset for entry in into_jump] == [*range(jump.end)]
    at_jump = await copy.store.read_events(start=jump.end, limit=1)
    assert [entry.offset for entry in at_jump] == [jump.first]
    assert jump.first - jump.end >= JUMP


async def test_two_restores_of_one_copy_give_out_different_numbers(rig: Rig, tmp_path: Path, copies: list[Rig]) -> None:
    await rig.create("orders")
    await back_up(rig, tmp_path / "copy")
    first = await restored(rig, tmp_path, copies)
    one = await first.send("orders")
    lease = await first.receive_one("orders")
    await first.close()
    copies.clear()
    forget(tmp_path / "copy")
    rig.clock.advance(ms=60_000)
    await back_up(rig, tmp_path / "again")
    second = await opened_backup(rig, tmp_path / "again")
    try:
        other = await second.send("orders")
        assert other.seq > one.seq
        assert second.store.stamp != first.store.stamp
        with pytest.raises(InvalidReceipt):  # of an incarnation that this one has never heard of
            await second.ack("orders", lease)
    finally:
        await second.close()
        forget(tmp_path / "again")


async def test_a_restored_store_can_be_backed_up_and_restored_again(
    rig: Rig, tmp_path: Path, copies: list[Rig]
) -> None:
    await rig.create("orders")
    await rig.send("orders")
    await back_up(rig, tmp_path / "copy")
    copy = await restored(rig, tmp_path, copies)
    lease = await copy.receive_one("orders")
    await back_up(copy, tmp_path / "third")
    third = await opened_backup(copy, tmp_path / "third")
    try:
        assert third.store.identity.present.number == 3
        assert third.store.identity.incarnations[:2] == copy.store.identity.incarnations
        with pytest.raises(LeaseLost):
            await third.ack("orders", lease)
        assert (await third.receive_one("orders")).message.attempts == 2
        assert await third.store.check() == []
    finally:
        await third.close()
        forget(tmp_path / "third")
