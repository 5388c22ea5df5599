"""What is staged is nobody's; published, it is there as a whole, once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from couriermq.core import limits
from couriermq.core.errors import (
    BatchTooLarge,
    BodyTooLarge,
    Invalid,
    PublicationNotFound,
    QueueNotFound,
    StageNotFound,
)
from couriermq.core.events import EventKind
from couriermq.core.limits import STAGE_COUNT
from couriermq.core.model import DAY, MINUTE, Draft, Exchange, Kind, Queue
from couriermq.stages import CHUNK
from couriermq.storage.base import Chunk
from tests.support.engines import TENANT, WHO, Rig

MANY = 3_500


async def stage(rig: Rig, *bodies: bytes, name: str = "s1", part: int = 0, queue: str = "orders", **more: Any) -> None:
    drafts = [Draft(body=body, **more) for body in bodies]
    await rig.stages.stage(rig.queue(queue), name, part, drafts, principal=WHO)


async def publish(
    rig: Rig, *stages: str, number: int = 0, series: str = "query", queue: str = "orders", **more: Any
) -> int:
    published = await rig.stages.publish(rig.queue(queue), series, number, stages, principal=WHO, **more)
    return published.count


async def held(rig: Rig, name: str = "orders") -> list[bytes]:
    return [message.body for message in await rig.browse(name)]


async def test_nothing_of_a_stage_is_seen_before_it_is_published(rig: Rig) -> None:
    await rig.create("orders")
    await stage(rig, b"1", b"2")
    assert (await held(rig), (await rig.counters("orders")).sent_count) == ([], 0)
    assert await publish(rig, "s1") == 2
    assert await held(rig) == [b"1", b"2"]
    assert [event.kind for event in await rig.events(EventKind.SENT)] == ["sent"] * 2


async def test_stages_are_published_together_in_the_order_in_which_they_are_named(rig: Rig) -> None:
    await rig.create("orders")
    await stage(rig, b"3", name="second")
    await stage(rig, b"2", name="first", part=1)
    await stage(rig, b"1", name="first", part=0)
    assert await publish(rig, "first", "second") == 3
    assert await held(rig) == [b"1", b"2", b"3"]


async def test_what_is_sent_after_a_publication_comes_after_it(rig: Rig) -> None:
    await rig.create("orders")
    for body in (b"1", b"2", b"3"):
        await rig.send("orders", body)
    await stage(rig, b"4", b"5")
    assert await publish(rig, "s1") == 2
    for body in (b"6", b"7"):
        await rig.send("orders", body)
    assert await held(rig) == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]


async def test_a_number_is_published_once(rig: Rig) -> None:
    await rig.create("orders")
    await stage(rig, b"1")
    first = await rig.stages.publish(rig.queue("orders"), "query", 4, ["s1"], principal=WHO)
    await rig.restart()
    await stage(rig, b"1", name="replayed")
    rig.clock.advance(ms=1_000)
    for number in (4, 3):
        again = await rig.stages.publish(rig.queue("orders"), "query", number, ["replayed"], principal=WHO)
        assert again == first
    assert await held(rig) == [b"1"]
    with pytest.raises(StageNotFound):
        await publish(rig, "replayed", number=5)  # it went with the publication that was not to be


async def test_it_can_be_asked_what_was_published(rig: Rig) -> None:
    await rig.create("orders")
    with pytest.raises(PublicationNotFound):
        await rig.stages.publication(rig.queue("orders"), "query")
    await stage(rig, b"1")
    published = await rig.stages.publish(rig.queue("orders"), "query", 7, ["s1"], principal=WHO)
    assert (published.number, published.count, published.published_at) == (7, 1, rig.now)
    assert await rig.stages.publication(rig.queue("orders"), "query") == published


async def test_a_publication_of_nothing_is_remembered_too(rig: Rig) -> None:
    await rig.create("orders")
    assert await publish(rig, number=3) == 0
    assert (await rig.stages.publication(rig.queue("orders"), "query")).number == 3


async def test_a_part_that_comes_twice_is_kept_once(rig: Rig) -> None:
    await rig.create("orders")
    await stage(rig, b"1")
    await stage(rig, b"1")
    assert await publish(rig, "s1") == 1


async def test_a_part_that_comes_again_with_more_is_kept_as_it_came_first(rig: Rig) -> None:
    await rig.create("orders")
    await stage(rig, b"1", b"2")
    await stage(rig, *[b"other"] * (CHUNK + 1))
    await stage(rig, b"3", part=1)
    assert await publish(rig, "s1") == 3
    assert await held(rig) == [b"1", b"2", b"3"]


async def test_a_stage_that_is_not_there_publishes_nothing(rig: Rig) -> None:
    await rig.create("orders")
    await stage(rig, b"1")
    with pytest.raises(StageNotFound):
        await publish(rig, "s1", "s2")
    assert await held(rig) == []
    assert await publish(rig, "s1") == 1
    with pytest.raises(StageNotFound):
        await publish(rig, "s1", number=1)


async def test_a_stage_belongs_to_its_queue(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    await stage(rig, b"1")
    with pytest.raises(StageNotFound):
        await publish(rig, "s1", queue="bills")


async def test_a_dropped_stage_is_gone_but_what_was_published_stays(rig: Rig) -> None:
    await rig.create("orders")
    await stage(rig, b"1", name="dropped")
    await stage(rig, b"2", name="published")
    await publish(rig, "published")
    await rig.stages.drop(rig.queue("orders"), ["dropped", "published", "unknown"])
    assert await held(rig) == [b"2"]
    with pytest.raises(StageNotFound):
        await publish(rig, "dropped", number=1)


async def test_a_stage_is_published_whole_or_too_old(rig: Rig) -> None:
    """Its chunks are forgotten one after the other."""
    await rig.create("orders")
    await stage(rig, b"1", part=0)
    rig.clock.advance(ms=DAY - MINUTE)
    await stage(rig, b"2", part=1)
    rig.clock.advance(ms=2 * MINUTE)
    await rig.store.advance(now=rig.now)
    with pytest.raises(StageNotFound):
        await publish(rig, "s1")
    assert (await rig.store.staged([rig.queue("orders").id])).message_count == 0


async def test_a_stage_that_was_forgotten_and_begun_again_is_not_published_without_its_first_parts(rig: Rig) -> None:
    await rig.create("orders")
    await stage(rig, b"1", part=0)
    await rig.pass_time(ms=DAY + 2 * MINUTE)
    await stage(rig, b"2", part=1)
    with pytest.raises(StageNotFound, match="stage 's1' has 1 part and not 2"):
        await publish(rig, "s1", parts={"s1": 2})
    assert await held(rig) == []
    await stage(rig, b"1", part=0)
    assert await publish(rig, "s1", parts={"s1": 2}) == 2
    assert await held(rig) == [b"1", b"2"]


async def test_a_part_counts_once_however_many_chunks_it_has(rig: Rig) -> None:
    await rig.create("orders")
    await stage(rig, *[b"x"] * (2 * CHUNK))
    await stage(rig, b"y", part=7)
    assert await publish(rig, "s1", parts={"s1": 2}) == 2 * CHUNK + 1


async def test_parts_are_told_only_of_stages_that_are_published(rig: Rig) -> None:
    await rig.create("orders")
    await stage(rig, b"1")
    with pytest.raises(Invalid, match="'s2' is not among the stages"):
        await publish(rig, "s1", parts={"s2": 1})


async def test_a_part_that_comes_again_keeps_its_stage_for_another_day(rig: Rig) -> None:
    await rig.create("orders")
    await stage(rig, b"1", part=0)
    await stage(rig, b"2", part=1)
    await rig.pass_time(ms=DAY - MINUTE)
    await stage(rig, b"1", part=0)
    await rig.pass_time(ms=DAY - MINUTE)
    await stage(rig, b"3", part=2)
    assert await publish(rig, "s1") == 3
    assert await held(rig) == [b"1", b"2", b"3"]
    assert await rig.store.check() == []


async def test_a_part_that_comes_to_a_stage_that_is_too_old_begins_it_anew(rig: Rig) -> None:
    """Otherwise what came again would be forgotten with the rest."""
    await rig.create("orders")
    await stage(rig, b"1", part=0)
    await stage(rig, b"2", part=1)
    rig.clock.advance(ms=DAY + 2 * MINUTE)
    await stage(rig, b"1", part=0)
    await rig.pass_time(ms=1)
    await stage(rig, b"2", part=1)
    assert await publish(rig, "s1") == 2
    assert await held(rig) == [b"1", b"2"]


async def test_a_large_publication_is_seen_whole_or_not_at_all(rig: Rig) -> None:
    await rig.create("orders")
    for part in range(7):
        await stage(rig, *[b"%d" % n for n in range(part * 500, part * 500 + 500)], part=part)
    publishing = asyncio.create_task(publish(rig, "s1"))
    seen = set()
    while not publishing.done():
        seen.add((await rig.counters("orders")).total_count)
        await asyncio.sleep(0)
    assert await publishing == MANY
    assert seen <= {0, MANY}
    assert await held(rig) == [b"%d" % n for n in range(MANY)]
    assert await rig.store.check() == []


async def test_whoever_waits_is_given_what_was_published(rig: Rig) -> None:
    await rig.create("orders")
    await stage(rig, b"1")
    waiting = asyncio.create_task(rig.receive("orders", wait_ms=10_000))
    await rig.arrivals.waits.get()
    await publish(rig, "s1")
    assert [lease.message.body for lease in await waiting] == [b"1"]


async def test_messages_keep_what_their_sender_said_and_count_from_the_publication(rig: Rig) -> None:
    await rig.create("orders")
    more: dict[str, Any] = {
        "content_type": "text/x",
        "attributes": {"n": 1.5, "ok": True},
        "id": "mine",
        "group": "g",
        "trace": "t",
    }
    await stage(rig, b"x" * 5_000, delay_ms=1_000, retention_ms=60_000, **more)
    rig.clock.advance(ms=500)
    await publish(rig, "s1")
    (message,) = await rig.browse("orders")
    assert (message.sent_at, message.due_at, message.discard_at) == (rig.now, rig.now + 1_000, rig.now + 60_000)
    assert {name: getattr(message, name) for name in more} == more
    assert message.body == b"x" * 5_000


async def test_a_fifo_queue_keeps_the_order_and_drops_duplicates(rig: Rig) -> None:
    await rig.create("orders", kind=Kind.FIFO)
    await rig.send("orders", b"known", id="known")
    drafts = [Draft(body=b"%d" % n, group="g", id=f"m{n}") for n in (1, 2, 1)] + [Draft(body=b"x", id="known")]
    await rig.stages.stage(rig.queue("orders"), "s1", 0, drafts, principal=WHO)
    await publish(rig, "s1")
    assert await held(rig) == [b"known", b"1", b"2"]
    assert await rig.store.check() == []


async def test_an_exchange_routes_what_is_staged_for_it(rig: Rig) -> None:
    await rig.create("all")
    await rig.create("none")
    exchange = await rig.catalog.create_exchange(TENANT, "fan", principal=WHO)
    await rig.catalog.bind(exchange, rig.queue("all"), principal=WHO)
    await rig.stages.stage(exchange, "s1", 0, [Draft(body=b"1"), Draft(body=b"2")], principal=WHO)
    assert (await rig.stages.publish(exchange, "query", 0, ["s1"], principal=WHO)).count == 2
    assert (await held(rig, "all"), await held(rig, "none")) == ([b"1", b"2"], [])
    assert [(event.detail or {})["queue_count"] for event in await rig.events(EventKind.PUBLISHED)] == [1, 1]


async def fan(rig: Rig, count: int) -> Exchange:
    """An exchange that copies every message to so many queues."""
    exchange = await rig.catalog.create_exchange(TENANT, "fan", principal=WHO)
    for number in range(count):
        await rig.catalog.bind(exchange, await rig.create(f"q{number}"), principal=WHO)
    return exchange


async def listened_to(rig: Rig, count: int) -> Queue:
    """A queue that copies every message to so many listeners."""
    queue = await rig.create("orders")
    for number in range(count):
        await rig.catalog.create_listener(queue, f"l{number}", "https://example.com/", principal=WHO)
    return queue


def watched_chunks(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[Chunk]:
    """Every chunk that is staged from now on."""
    seen: list[Chunk] = []
    stage = rig.store.stage

    async def watched(target: str, *, chunks: Sequence[Chunk], **more: Any) -> None:
        seen.extend(chunks)
        await stage(target, chunks=chunks, **more)

    monkeypatch.setattr(rig.store, "stage", watched)
    return seen


@pytest.mark.parametrize("copied", [fan, listened_to])
async def test_a_chunk_has_no_more_copies_than_one_commit_stores(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, copied: Callable[[Rig, int], Awaitable[Queue | Exchange]]
) -> None:
    target = await copied(rig, 3)
    monkeypatch.setattr(limits, "COPY_COUNT", 12)
    chunks = watched_chunks(rig, monkeypatch)
    await rig.stages.stage(target, "s1", 0, [Draft(body=b"%d" % number) for number in range(10)], principal=WHO)
    assert [chunk.count for chunk in chunks] == [4, 4, 2]
    assert (await rig.stages.publish(target, "query", 0, ["s1"], parts={"s1": 1}, principal=WHO)).count == 10
    queues = [target] if isinstance(target, Queue) else [rig.queue(f"q{number}") for number in range(3)]
    for queue in queues:
        assert await held(rig, queue.name) == [b"%d" % number for number in range(10)]
        for listener in rig.catalog.listeners_of(queue):
            assert (await rig.broker.counters(rig.catalog.outbox(listener))).ready_count == 10


async def test_a_chunk_has_no_more_bytes_of_copies_than_one_commit_stores(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = await fan(rig, 3)
    monkeypatch.setattr(limits, "COMMIT_BYTES", 10_000)
    chunks = watched_chunks(rig, monkeypatch)
    drafts = [Draft(body=b"x" * 500, attributes={"note": "y" * 500}) for _ in range(7)]
    await rig.stages.stage(exchange, "s1", 0, [*drafts, Draft(body=b"z" * 9_000)], principal=WHO)
    assert [chunk.count for chunk in chunks] == [3, 3, 1, 1]
    assert (await rig.stages.publish(exchange, "query", 0, ["s1"], principal=WHO)).count == 8


async def test_a_staged_message_whose_copies_are_too_many_bytes_is_refused_as_a_sent_one_is(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = await fan(rig, 3)
    monkeypatch.setattr(limits, "COMMIT_BYTES", 100)
    monkeypatch.setattr(limits, "COPY_BYTES", 1_000)
    fitting, large = Draft(body=b"x" * 333), Draft(body=b"x" * 334)
    with pytest.raises(Invalid, match="its copies are 1002 bytes"):
        await rig.broker.publish(exchange, [large], principal=WHO)
    with pytest.raises(Invalid, match="message 1: the message and its copies are 1002 bytes"):
        await rig.stages.stage(exchange, "s1", 0, [fitting, large], principal=WHO)
    await rig.stages.stage(exchange, "s1", 0, [fitting, fitting], principal=WHO)
    assert (await rig.stages.publish(exchange, "query", 0, ["s1"], principal=WHO)).count == 2


async def test_a_part_that_comes_again_in_other_chunks_is_kept_as_it_came_first(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is divided by the number of bindings, and these may have changed."""
    exchange = await fan(rig, 3)
    drafts = [Draft(body=b"%d" % number) for number in range(10)]
    await rig.stages.stage(exchange, "s1", 0, drafts, principal=WHO)
    monkeypatch.setattr(limits, "COPY_COUNT", 6)
    await rig.stages.stage(exchange, "s1", 0, drafts, principal=WHO)
    assert (await rig.stages.publish(exchange, "query", 0, ["s1"], parts={"s1": 1}, principal=WHO)).count == 10
    assert await held(rig, "q2") == [b"%d" % number for number in range(10)]


async def test_one_message_that_is_refused_refuses_its_part(rig: Rig) -> None:
    await rig.create("orders", max_body_bytes=3)
    with pytest.raises(BodyTooLarge, match="message 1: the message is 4 bytes"):
        await stage(rig, b"abc", b"abcd")
    with pytest.raises(StageNotFound):
        await publish(rig, "s1")


@pytest.mark.parametrize("count", [0, STAGE_COUNT + 1])
async def test_a_part_has_a_size(rig: Rig, count: int) -> None:
    await rig.create("orders")
    with pytest.raises(BatchTooLarge):
        await rig.stages.stage(rig.queue("orders"), "s1", 0, [Draft(body=b"")] * count, principal=WHO)


async def test_stages_and_series_have_plain_names(rig: Rig) -> None:
    await rig.create("orders")
    with pytest.raises(Invalid):
        await stage(rig, b"1", name="a/b")
    with pytest.raises(Invalid):
        await publish(rig, series="é")


async def test_a_stage_that_nobody_publishes_is_swept_away_after_a_day(rig: Rig) -> None:
    await rig.create("orders")
    await stage(rig, b"1")
    await rig.pass_time(ms=DAY - MINUTE)
    await stage(rig, b"2", name="young")
    await rig.pass_time(ms=MINUTE)
    with pytest.raises(StageNotFound):
        await publish(rig, "s1")
    assert await publish(rig, "young") == 1


async def test_messages_for_a_queue_that_is_deleted_before_they_are_published_are_lost_with_it(rig: Rig) -> None:
    await rig.create("all")
    await rig.create("some")
    exchange = await rig.catalog.create_exchange(TENANT, "fan", principal=WHO)
    for name in ("all", "some"):
        await rig.catalog.bind(exchange, rig.queue(name), principal=WHO)
    await rig.stages.stage(exchange, "s1", 0, [Draft(body=b"1")], principal=WHO)
    await rig.catalog.unbind(exchange, rig.queue("some"), principal=WHO)
    gone = rig.queue("some")
    await rig.catalog.delete_queue(gone, principal=WHO)
    await rig.stages.publish(exchange, "query", 0, ["s1"], principal=WHO)
    assert await held(rig, "all") == [b"1"]
    with pytest.raises(QueueNotFound):
        await rig.broker.counters(gone)


async def test_a_publication_that_a_crash_interrupts_is_seen_whole(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.create("orders")
    for part in range(7):
        await stage(rig, *[b"%d" % n for n in range(part * 500, part * 500 + 500)], part=part)
    with monkeypatch.context() as crash:
        crash.setattr(type(rig.engine), "_land_all", _die, raising=False)  # PostgreSQL lands in the same transaction
        await asyncio.gather(publish(rig, "s1"), return_exceptions=True)
        await rig.restart()
        await stage(rig, b"again", name="replayed")
        await asyncio.gather(publish(rig, "replayed"), return_exceptions=True)
    assert (await rig.counters("orders")).ready_count == MANY
    assert [lease.message.body for lease in await rig.receive("orders", limit=2)] == [b"0", b"1"]
    assert await rig.store.check() == []


async def _die(store: object) -> None:
    raise RuntimeError("the power is gone")


async def test_others_are_served_while_a_large_publication_lands(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("others")
    for part in range(30):
        await stage(rig, *[b"x"] * 1_000, part=part)
    await rig.send("others")  # opens the connections, which may take longer than the publication
    await rig.receive_one("others")
    publishing = asyncio.create_task(publish(rig, "s1"))
    served = 0
    while not publishing.done():
        await rig.send("others")
        await rig.receive_one("others")
        served += not publishing.done()
    assert (await publishing, (await rig.counters("orders")).ready_count) == (30_000, 30_000)
    assert served > 2
