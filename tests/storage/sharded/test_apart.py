"""Queues on two shards: what one shard does while another is away, and queues that move meanwhile."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from couriermq.core.errors import QueueNotFound, StageNotFound, Unavailable
from couriermq.core.model import SECOND, Draft, Queue
from couriermq.core.sharding import RelocationState
from couriermq.core.shards import Newest
from couriermq.storage.sharded.carrier import Carrier
from couriermq.storage.sharded.moving import begin, tell
from couriermq.storage.sharded.places import fence_record, place_record, queue_record
from couriermq.storage.sharded.routing import Routing
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.engines import TENANT, WHO, Rig
from tests.support.eventually import eventually
from tests.support.sqlite_shards import SqliteShards

NEVER_SECONDS = 3_600.0


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """`near` lives at home, `far` on the other shard."""
    rig = Rig(lambda: SqliteShards(tmp_path, hasty=True))
    await rig.open()
    await rig.create("near")
    await rig.create("far")
    assert [place(rig, name) for name in ("near", "far")] == [0, 1]
    yield rig
    await rig.close()


def routing(rig: Rig) -> Routing:
    assert isinstance(rig.store, SqliteShards)
    return rig.store.routing


def place(rig: Rig, name: str) -> int:
    return routing(rig).places.of(rig.queue(name).key)


async def flip(rig: Rig, queue: Queue, to: int) -> None:
    """Let an empty queue live on another shard."""
    if to:
        member = routing(rig).members[to]
        await (await member.ready()).change_records(put=[queue_record(queue)])
        member.residents.learn(put=[queue_record(queue)], delete=())
    routing(rig).places.learn([place_record(queue, to)], ())


def database(engine: object) -> sqlite3.Connection:
    assert isinstance(engine, SqliteStore)
    return engine._db


async def fence(rig: Rig, queue: Queue) -> None:
    number = routing(rig).places.of(queue.key)
    routing(rig).members[number].residents.fence([queue.key])
    await (await routing(rig).engine(number)).change_records(put=[fence_record(queue)])


@pytest.mark.parametrize("place", ["near", "far", "fan"])
async def test_a_stage_without_all_its_parts_is_published_on_no_shard(rig: Rig, place: str) -> None:
    fan = await rig.catalog.create_exchange(TENANT, "fan", principal=WHO)
    await rig.catalog.bind(fan, rig.queue("far"), principal=WHO)
    target = fan if place == "fan" else rig.queue(place)
    await rig.stages.stage(target, "s", 1, [Draft(body=b"2")], principal=WHO)
    with pytest.raises(StageNotFound):
        await rig.stages.publish(target, "series", 1, ["s"], parts={"s": 2}, principal=WHO)
    await rig.stages.stage(target, "s", 0, [Draft(body=b"1")], principal=WHO)
    assert (await rig.stages.publish(target, "series", 1, ["s"], parts={"s": 2}, principal=WHO)).count == 2


async def test_a_publication_waits_for_its_queue_that_moves(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("couriermq.storage.sharded.routing.PATIENCE_SECONDS", 0.1)
    queue = rig.queue("far")
    await rig.stages.stage(queue, "s", 0, [Draft(body=b"%d" % n) for n in range(5)], principal=WHO)
    await fence(rig, queue)
    with pytest.raises(Unavailable, match="being moved"):
        await rig.stages.publish(queue, "series", 1, ["s"], principal=WHO)
    with pytest.raises(Unavailable, match="being moved"):
        await rig.stages.stage(queue, "s", 1, [Draft(body=b"5")], principal=WHO)
    routing(rig).members[1].residents.unfence([queue.key])
    assert (await rig.stages.publish(queue, "series", 1, ["s"], principal=WHO)).count == 5
    assert (await rig.counters("far")).ready_count == 5


@pytest.mark.parametrize("name", ["near", "far"])
async def test_a_purge_across_a_move_takes_nothing_that_is_sent_later(rig: Rig, name: str) -> None:
    queue = rig.queue(name)
    await rig.send(name, b"old")
    upto = Newest(at=rig.now, seq=await rig.broker.last_seq(queue))
    await rig.broker.purge(queue, principal=WHO, upto=upto)
    await flip(rig, queue, 1 - place(rig, name))
    rig.clock.advance(ms=SECOND)
    await rig.send(name, b"new")
    assert await rig.broker.purge(queue, principal=WHO, upto=upto) == 0
    assert [message.body for message in await rig.browse(name)] == [b"new"]


async def test_calls_do_not_wait_for_a_shard_that_is_away(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were they to wait for what goes to that shard, they would wait for ever here."""
    monkeypatch.setattr("couriermq.storage.sharded.carrier.PATIENCE_SECONDS", NEVER_SECONDS)
    await rig.send("near", b"for far")
    member = routing(rig).members[1]
    ready, asked = member.ready, asyncio.Event()

    async def away() -> object:
        asked.set()
        raise Unavailable("the shard is away")

    member.ready, member.is_open = away, False  # type: ignore[method-assign,assignment]
    assert await rig.move("near", "far") == 1
    await asked.wait()
    await rig.send("near", b"another")
    await rig.ack("near", await rig.receive_one("near"))
    await rig.store.advance(now=rig.now)
    member.ready, member.is_open = ready, True  # type: ignore[method-assign]
    await eventually(lambda: rig.browse("far"), lambda found: [one.body for one in found] == [b"for far"])


async def test_a_shard_that_does_not_answer_is_waited_for_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.send("near", b"for far")
    member, answering = routing(rig).members[1], asyncio.Event()
    ready = member.ready

    async def hung() -> object:
        await answering.wait()
        return await ready()

    member.ready, member.is_open = hung, False  # type: ignore[method-assign,assignment]
    monkeypatch.setattr("couriermq.storage.sharded.carrier.PATIENCE_SECONDS", 0.1)
    assert await rig.move("near", "far") == 1
    await eventually(lambda: not routing(rig).carrier.is_busy)
    monkeypatch.setattr("couriermq.storage.sharded.carrier.PATIENCE_SECONDS", NEVER_SECONDS)
    await rig.send("near", b"another")
    await rig.ack("near", await rig.receive_one("near"))
    member.ready, member.is_open = ready, True  # type: ignore[method-assign]
    answering.set()
    await eventually(lambda: rig.browse("far"), lambda found: [one.body for one in found] == [b"for far"])


async def test_a_message_whose_queue_moves_to_where_it_waits_gets_there(rig: Rig) -> None:
    carrier = routing(rig).carrier
    carrier._closed = True  # it has not come to it yet
    await rig.send("far", b"precious", group="g")
    await rig.move("far", "near")
    await flip(rig, rig.queue("near"), 1)
    carrier._closed = False
    carrier.note(1, -rig.queue("near").key)
    await carrier.settled()
    (lease,) = await rig.receive("near")
    assert (lease.message.body, lease.message.group) == (b"precious", "g")
    await rig.ack("near", lease)
    assert await rig.store.check() == []


async def test_a_message_that_had_arrived_before_its_queue_moved_to_it_does_not_come_again(rig: Rig) -> None:
    carrier = routing(rig).carrier
    carrier._closed = True
    await rig.send("far", b"once")
    await rig.move("far", "near")
    home, second = [await routing(rig).engine(number) for number in (0, 1)]
    near = rig.queue("near")
    found = await second.porting.travellers(-near.key, limit=9)
    await home.porting.arrive(near, found, source=1, now=rig.now)
    await rig.ack("near", await rig.receive_one("near"))
    await flip(rig, near, 1)
    for arrival in database(home).execute("SELECT * FROM dedup WHERE queue = ?", (-near.key,)).fetchall():
        database(second).execute(f"INSERT INTO dedup VALUES ({', '.join('?' * len(arrival))})", arrival)
    carrier._closed = False
    carrier.note(1, -near.key)
    await carrier.settled()
    assert await rig.browse("near") == []
    assert not carrier.is_busy


async def test_a_queue_that_was_deleted_does_not_begin_to_move(rig: Rig) -> None:
    queue = rig.queue("far")
    await rig.catalog.delete_queue(queue, principal=WHO)
    with pytest.raises(QueueNotFound):
        await begin(routing(rig), rig.clock, queue, 0)


async def test_what_waits_for_another_attempt_goes_on_waiting_while_its_queue_moves(rig: Rig) -> None:
    queue = rig.queue("far")
    listener = await rig.catalog.create_listener(queue, "hook", "http://127.0.0.1:9", principal=WHO)
    outbox = rig.catalog.outbox(listener)
    await begin(routing(rig), rig.clock, queue, 0)
    for one in (queue, outbox):
        with pytest.raises(Unavailable, match="being moved"):
            await rig.broker.hasten(one)
    assert await rig.broker.hasten(rig.queue("near")) == 0


async def test_the_journal_of_a_shard_is_kept_while_a_queue_leaves_it(rig: Rig) -> None:
    await rig.send("far")
    second = await routing(rig).engine(1)
    ((lane, span),) = (await second.spans()).items()
    (journal,) = [journal for journal in rig.store.journals() if lane in await journal.spans()]
    relocation = await begin(routing(rig), rig.clock, rig.queue("far"), 0)
    assert await journal.trim_events(before=span.next) == span.oldest
    await tell(routing(rig), msgspec.structs.replace(relocation, state=RelocationState.DONE))
    await rig.send("far")
    assert await journal.trim_events(before=span.next) == span.next


async def test_a_receiver_that_goes_away_while_messages_are_carried_gives_back_what_it_was_leased(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await rig.send("far")
    carrying = asyncio.Event()

    async def settled(_: Carrier) -> None:
        carrying.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Carrier, "is_busy", True)
    monkeypatch.setattr(Carrier, "settled", settled)
    receiver = asyncio.create_task(rig.receive("far", lease_ms=600_000))
    await carrying.wait()
    monkeypatch.undo()
    receiver.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiver
    lease = await rig.receive_one("far")
    assert (lease.message.seq, lease.message.attempts) == (sent.seq, 1)
