"""Operations that go on after a restart: nothing is done twice, nothing is left out."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.errors import Unavailable
from couriermq.core.model import SECOND, Draft
from couriermq.journal.history import History, Past
from couriermq.operations import Operation, Operations, State, Verb, Where, runner
from couriermq.operations import portions as portions_module
from tests.support.engines import ENGINES, Rig, forget
from tests.support.eventually import eventually

pytestmark = pytest.mark.every_engine


@pytest.fixture
async def rig(engine: str, tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(lambda: ENGINES[engine](tmp_path / "data"))
    await rig.open()
    for name in ("orders", "copies"):
        await rig.catalog.create_queue("default", name, principal="test")
    await rig.send_all("orders", [Draft(body=b"%d" % number) for number in range(20)])
    yield rig
    await rig.close()
    forget(tmp_path / "data")


def operations_of(rig: Rig, *, shared: bool = False) -> Operations:
    history = History(Past(rig.store))
    return Operations(rig.broker, rig.catalog, rig.clock, rig.stages, history, holds=lambda duty: True, shared=shared)


async def bodies(rig: Rig, name: str) -> Counter[bytes]:
    return Counter(message.body for message in (await rig.broker.browse(rig.queue(name), limit=1_000)).messages)


async def finished(operations: Operations, operation: Operation) -> Operation:
    await eventually(lambda: not operations._tasks)
    return operations.one("default", operation.id)


@pytest.mark.parametrize("verb", [Verb.RESEND, Verb.REPLAY])
@pytest.mark.parametrize("crash", ["before", "after"])
async def test_a_portion_that_was_interrupted_is_sent_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, verb: Verb, crash: str
) -> None:
    monkeypatch.setattr(runner, "PORTION_COUNT", 6)
    publish, calls = rig.stages.publish, 0

    async def failing(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 2 and crash == "before":
            raise Unavailable("the power is gone")
        done = await publish(*arguments, **options)  # type: ignore[arg-type]
        if calls == 2:
            raise Unavailable("the power is gone")
        return done

    monkeypatch.setattr(rig.stages, "publish", failing)
    first = operations_of(rig)
    operation = await first.start(
        rig.queue("orders"), rig.queue("copies"), verb, Where(), per_second=None, principal="test"
    )
    assert (await finished(first, operation)).state is State.RUNNING
    gone = (await rig.broker.browse(rig.queue("orders"), limit=20)).messages[6:8]
    await rig.broker.remove(rig.queue("orders"), [message.seq for message in gone], principal="test")
    again = operations_of(rig)
    again._begin("default", again.one("default", operation.id))
    done = await finished(again, operation)
    # A queue gives what it still has; the journal and a publication have what was there.
    left_out = {b"6", b"7"} if verb is Verb.RESEND and crash == "before" else set()
    expected = Counter({body: 1 for number in range(20) if (body := b"%d" % number) not in left_out})
    assert await bodies(rig, "copies") == expected
    assert (done.state, done.done_count) == (State.DONE, expected.total())


async def test_copies_into_the_same_queue_are_not_copied_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "PORTION_COUNT", 3)
    operations = operations_of(rig)
    operation = await operations.start(
        rig.queue("orders"), None, Verb.RESEND, Where(), per_second=None, principal="test"
    )
    assert (await finished(operations, operation)).done_count == 20
    assert set((await bodies(rig, "orders")).values()) == {2}


async def test_a_replay_sends_what_was_sent_within_a_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions_module, "EVENT_COUNT", 7)
    start = rig.now + 1_000
    rig.clock.advance(ms=1_000)
    await rig.send("orders", b"wanted", attributes={"n": 1})
    await rig.send("orders", b"other", attributes={"n": 2})
    rig.clock.advance(ms=1_000)
    await rig.send("orders", b"later", attributes={"n": 1})
    operations = operations_of(rig)
    where = Where(start=start, end=start + 500, attributes=(("n", 1),))
    operation = await operations.start(
        rig.queue("orders"), rig.queue("copies"), Verb.REPLAY, where, per_second=None, principal="test"
    )
    await finished(operations, operation)
    assert await bodies(rig, "copies") == Counter([b"wanted"])


async def test_an_operation_that_another_node_cancelled_ends(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "PORTION_COUNT", 5)
    operations, other = operations_of(rig), operations_of(rig)
    operation = await operations.start(rig.queue("orders"), None, Verb.REMOVE, Where(), per_second=5, principal="test")
    await eventually(lambda: operation.done_count == 5)
    await other.cancel("default", operation.id)
    rig.clock.advance(ms=2_000)
    done = await finished(operations, operation)
    assert (done.state, done.done_count) == (State.CANCELLED, 5)
    assert sum((await bodies(rig, "orders")).values()) == 15


async def test_a_queue_that_is_deleted_ends_its_operation(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "PORTION_COUNT", 5)
    operations = operations_of(rig)
    operation = await operations.start(
        rig.queue("orders"), rig.queue("copies"), Verb.MOVE, Where(), per_second=5, principal="test"
    )
    await eventually(lambda: operation.done_count == 5)
    await rig.catalog.delete_queue(rig.queue("orders"), principal="test")
    rig.clock.advance(ms=2_000)
    done = await finished(operations, operation)
    assert (done.state, "no queue" in (done.error or "")) == (State.FAILED, True)


async def test_a_slow_operation_is_not_taken_up_by_another_node(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    operations, other = operations_of(rig, shared=True), operations_of(rig, shared=True)
    put, writes = rig.catalog.put_record, 0

    async def counted(*arguments: Any, **options: Any) -> object:
        nonlocal writes
        writes += 1
        return await put(*arguments, **options)

    operation = await operations.start(
        rig.queue("orders"), None, Verb.REMOVE, Where(), per_second=0.001, principal="test"
    )
    await eventually(lambda: operation.done_count == 1)
    monkeypatch.setattr(rig.catalog, "put_record", counted)
    for _ in range(10):
        # What it wrote can be seen before it sleeps: a clock that is moved in between wakes nobody.
        await eventually(lambda: any(at <= rig.now + SECOND for at, *_ in rig.clock._sleepers))
        rig.clock.advance(ms=runner.ALIVE_MS)
        await eventually(lambda: rig.catalog.record("operation", "default", operation.id).changed_at == rig.now)
        assert not other._is_abandoned(rig.catalog.record("operation", "default", operation.id))
    assert writes == 10
    rig.clock.advance(ms=runner.STALE_MS)
    assert other._is_abandoned(rig.catalog.record("operation", "default", operation.id))
    operations.stop()
    await eventually(lambda: not operations._tasks)
