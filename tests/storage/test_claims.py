"""A claim holds the same messages under the same number until it is acked or freed, whatever happens meanwhile."""

import asyncio

import pytest

from couriermq.core.errors import ClaimGone, Fenced, Invalid, JobNotFound, LeaseLost, QueueNotFound, QueuePaused
from couriermq.core.events import EventKind
from couriermq.core.limits import CLAIM_COUNT
from couriermq.core.model import DAY, UNENDING, Claim, Draft, Job, Kind, LateAck, Message, State
from tests.support.engines import WHO, Rig

MANY = 4_500
"""More than fits into two parts of a claim, in every engine."""


async def send(rig: Rig, count: int, name: str = "orders", **parts: object) -> None:
    for first in range(0, count, 1_000):
        bodies = [b"%d" % n for n in range(first, min(first + 1_000, count))]
        await rig.send_all(name, [Draft(body=body, **parts) for body in bodies])  # type: ignore[arg-type]


async def opened(rig: Rig, count: int = 3, **settings: object) -> Job:
    """A queue `orders` with messages, and job `spark` open on it."""
    await rig.create("orders", **settings)  # type: ignore[arg-type]
    await send(rig, count)
    return await rig.claims.open(rig.queue("orders"), "spark")


async def claim(rig: Rig, job: Job, number: int = 1, limit: int = 10) -> Claim:
    return await rig.claims.claim(rig.queue("orders"), job.name, number, epoch=job.epoch, limit=limit, principal=WHO)


async def read(rig: Rig, job: Job, number: int = 1, start: int = 0, stop: int = 10) -> list[tuple[int, Message]]:
    queue, found = rig.queue("orders"), []
    for first in range(start, stop, 1_000):
        part = await rig.claims.read(queue, job.name, number, epoch=job.epoch, start=first, stop=stop)
        found += part.messages
    return found


async def bodies(rig: Rig, job: Job, number: int = 1, start: int = 0, stop: int = 10) -> list[bytes]:
    return [message.body for _, message in await read(rig, job, number, start, stop)]


async def ack(rig: Rig, job: Job, upto: int = 1) -> int:
    return await rig.claims.ack(rig.queue("orders"), job.name, upto=upto, epoch=job.epoch, principal=WHO)


async def test_claimed_messages_are_leased_without_end_and_shown_so(rig: Rig) -> None:
    job = await opened(rig)
    made = await claim(rig, job, limit=2)
    assert made == Claim(number=1, count=2, byte_count=2, claimed_at=rig.now, is_new=True)
    await rig.pass_time(ms=3 * DAY)
    shown = await rig.browse("orders", states=(State.LEASED,))
    assert [(message.body, message.attempts, message.due_at) for message in shown] == [
        (b"0", 1, UNENDING),
        (b"1", 1, UNENDING),
    ]
    counters = await rig.counters("orders")
    assert (counters.ready_count, counters.leased_count) == (1, 2)
    assert [lease.message.body for lease in await rig.receive("orders", limit=10)] == [b"2"]


async def test_the_same_number_is_the_same_claim_also_after_a_restart(rig: Rig) -> None:
    job = await opened(rig)
    first = await claim(rig, job, limit=2)
    await rig.restart()
    await send(rig, 5)
    again = await claim(rig, job, limit=100)
    assert (again.number, again.count, again.byte_count, again.claimed_at) == (1, 2, 2, first.claimed_at)
    assert (first.is_new, again.is_new) == (True, False)
    assert await bodies(rig, job) == [b"0", b"1"]


async def test_a_claim_of_nothing_is_not_kept(rig: Rig) -> None:
    job = await opened(rig, count=0)
    assert (await claim(rig, job)).count == 0
    assert (await rig.claims.jobs(rig.queue("orders")))[0].claims == ()
    await send(rig, 1)
    assert (await claim(rig, job)).count == 1


async def test_a_large_claim_is_whole_and_in_order(rig: Rig) -> None:
    job = await opened(rig, count=MANY)
    assert (await claim(rig, job, limit=MANY - 1)).count == MANY - 1
    assert await bodies(rig, job, stop=MANY) == [b"%d" % n for n in range(MANY - 1)]
    assert (await rig.counters("orders")).ready_count == 1
    assert await ack(rig, job) == MANY - 1
    counters = await rig.counters("orders")
    assert (counters.total_count, counters.acked_count) == (1, MANY - 1)
    assert await rig.store.check() == []


async def test_a_slice_has_the_positions_that_were_asked_for(rig: Rig) -> None:
    job = await opened(rig, count=MANY)
    await claim(rig, job, limit=MANY)
    found = await rig.claims.read(rig.queue("orders"), "spark", 1, epoch=job.epoch, start=1_990, stop=2_010)
    assert found.count == MANY
    assert [(place, message.body) for place, message in found.messages] == [(n, b"%d" % n) for n in range(1_990, 2_010)]


async def test_large_bodies_and_all_that_came_with_them_are_read(rig: Rig) -> None:
    await rig.create("orders")
    job = await rig.claims.open(rig.queue("orders"), "spark")
    draft = Draft(body=b"x" * 5_000, id="mine", content_type="text/plain", attributes={"n": 1}, group="g")
    await rig.send_one("orders", draft)
    await claim(rig, job)
    ((position, message),) = await read(rig, job)
    assert (position, message.body, message.id, message.content_type) == (0, b"x" * 5_000, "mine", "text/plain")
    assert (message.attributes, message.group, message.attempts) == ({"n": 1}, "g", 1)


async def test_acked_claims_are_over(rig: Rig) -> None:
    job = await opened(rig, count=4)
    await claim(rig, job, 1, limit=2)
    await claim(rig, job, 2, limit=2)
    assert await ack(rig, job, upto=1) == 2
    assert await ack(rig, job, upto=1) == 0
    for number in (0, 1):
        with pytest.raises(ClaimGone):
            await claim(rig, job, number)
        with pytest.raises(ClaimGone):
            await read(rig, job, number)
    assert await bodies(rig, job, 2) == [b"2", b"3"]
    (known,) = await rig.claims.jobs(rig.queue("orders"))
    assert (known.done, [held.number for held in known.claims]) == (1, [2])
    assert await ack(rig, job, upto=7) == 2
    assert (await rig.claims.open(rig.queue("orders"), "spark")).done == 7


async def test_who_opens_a_job_shuts_out_who_had_it_before(rig: Rig) -> None:
    old = await opened(rig)
    await claim(rig, old)
    new = await rig.claims.open(rig.queue("orders"), "spark")
    assert new.epoch > old.epoch
    for call in (claim(rig, old), claim(rig, old, 2), read(rig, old), ack(rig, old)):
        with pytest.raises(Fenced):
            await call
    assert len(await bodies(rig, new)) == 3
    with pytest.raises(Fenced):
        await rig.claims.ack(rig.queue("orders"), "nobody", upto=1, epoch=1, principal=WHO)


async def test_jobs_do_not_share_messages(rig: Rig) -> None:
    one = await opened(rig)
    other = await rig.claims.open(rig.queue("orders"), "other")
    await claim(rig, one, limit=2)
    await claim(rig, other, limit=2)
    assert (await bodies(rig, one), await bodies(rig, other)) == ([b"0", b"1"], [b"2"])
    assert [job.name for job in await rig.claims.jobs(rig.queue("orders"))] == ["other", "spark"]


async def test_a_freed_job_gives_everything_back_and_is_shut_out(rig: Rig) -> None:
    job = await opened(rig, count=4)
    await claim(rig, job, 1, limit=1)
    await claim(rig, job, 2, limit=2)
    assert await rig.claims.free(rig.queue("orders"), "spark", principal=WHO) == 3
    with pytest.raises(Fenced):
        await read(rig, job)
    assert (await rig.counters("orders")).ready_count == 4
    assert sorted(lease.message.attempts for lease in await rig.receive("orders", limit=10)) == [1, 2, 2, 2]
    again = await rig.claims.open(rig.queue("orders"), "spark")
    assert (again.done, again.claims) == (2, ())
    with pytest.raises(ClaimGone):
        await read(rig, again, 2)
    assert await rig.store.check() == []


async def test_only_a_job_that_is_known_can_be_freed(rig: Rig) -> None:
    await rig.create("orders")
    with pytest.raises(JobNotFound):
        await rig.claims.free(rig.queue("orders"), "nobody", principal=WHO)


async def test_a_freed_message_that_has_no_attempt_left_dies(rig: Rig) -> None:
    await rig.create("graves")
    job = await opened(rig, max_attempts=1, dead_letter_queue="graves")
    await claim(rig, job)
    await rig.claims.free(rig.queue("orders"), "spark", principal=WHO)
    assert ((await rig.counters("orders")).total_count, (await rig.counters("graves")).ready_count) == (0, 3)


async def test_the_journal_tells_which_claim_it_was(rig: Rig) -> None:
    job = await opened(rig, count=2)
    await claim(rig, job, 1, limit=1)
    await claim(rig, job, 2, limit=1)
    await ack(rig, job, upto=1)
    await rig.claims.free(rig.queue("orders"), "spark", principal=WHO)
    told = await rig.events(EventKind.RECEIVED, EventKind.ACKED, EventKind.RELEASED)
    assert [(event.kind, (event.detail or {})["claim"]["number"]) for event in told] == [
        ("received", 1),
        ("received", 2),
        ("acked", 1),
        ("released", 2),
    ]
    assert {(event.detail or {})["claim"]["job"] for event in told} == {"spark"}


async def test_what_is_purged_or_too_old_leaves_its_position_empty(rig: Rig) -> None:
    job = await opened(rig, count=3, retention_ms=60_000)
    await claim(rig, job)
    ((_, second),) = await read(rig, job, start=1, stop=2)
    await rig.remove("orders", [second.seq])
    assert [position for position, _ in await read(rig, job)] == [0, 2]
    await rig.pass_time(ms=60_000)
    assert await read(rig, job) == []
    assert await ack(rig, job) == 0
    assert (await rig.counters("orders")).total_count == 0


async def test_a_receipt_from_before_the_claim_settles_nothing(rig: Rig) -> None:
    job = await opened(rig, count=1)
    lease = await rig.receive_one("orders", lease_ms=1_000)
    rig.clock.advance(ms=1_000)
    await claim(rig, job)
    for settle in (rig.ack("orders", lease), rig.release("orders", lease), rig.extend("orders", lease, lease_ms=1)):
        with pytest.raises(LeaseLost):
            await settle
    assert len(await read(rig, job)) == 1


async def test_where_late_acks_are_accepted_they_reach_into_claims(rig: Rig) -> None:
    job = await opened(rig, count=2, late_ack=LateAck.ACCEPT)
    lease = await rig.receive_one("orders", lease_ms=1_000)
    rig.clock.advance(ms=1_000)
    await claim(rig, job)
    await rig.ack("orders", lease)
    assert len(await read(rig, job)) == 1
    assert await ack(rig, job) == 1


async def test_a_paused_queue_gives_no_new_claim_but_those_that_it_gave(rig: Rig) -> None:
    job = await opened(rig)
    await claim(rig, job)
    queue = rig.queue("orders")
    await rig.catalog.change_queue(queue, settings=type(queue.settings)(paused=True), principal=WHO)
    assert (await claim(rig, job)).count == 3
    await send(rig, 1)
    with pytest.raises(QueuePaused):
        await claim(rig, job, 2)


async def test_delayed_messages_are_claimed_when_they_are_ready(rig: Rig) -> None:
    job = await opened(rig, delay_ms=1_000)
    assert (await claim(rig, job)).count == 0
    rig.clock.advance(ms=1_000)
    assert (await claim(rig, job)).count == 3


@pytest.mark.parametrize("kind", Kind)
async def test_who_takes_what_there_was_at_an_instant_comes_to_an_end(rig: Rig, kind: Kind) -> None:
    job = await opened(rig, count=3, kind=kind)
    rig.clock.advance(ms=10)
    await rig.send("orders", b"late", group="other")
    queue, there = rig.queue("orders"), rig.now - 10
    for number, count in ((1, 3), (2, 0)):
        taken = await rig.claims.claim(queue, "spark", number, epoch=job.epoch, limit=10, ready_by=there, principal=WHO)
        assert taken.count == count
    assert (await claim(rig, job, 2)).count == 1


async def test_groups_keep_their_order_inside_a_claim_and_stay_locked(rig: Rig) -> None:
    job = await opened(rig, count=0, kind=Kind.FIFO)
    names = ["a1", "b1", "a2", "b2", "a3"]
    await rig.send_all("orders", [Draft(body=name.encode(), group=name[0]) for name in names])
    await claim(rig, job, limit=4)
    assert await bodies(rig, job) == [b"a1", b"a2", b"a3", b"b1"]
    assert await rig.receive("orders", limit=10) == []
    await ack(rig, job)
    assert [lease.message.body for lease in await rig.receive("orders", limit=10)] == [b"b2"]
    assert await rig.store.check() == []


async def test_groups_are_let_go_in_their_order_when_a_job_is_freed(rig: Rig) -> None:
    job = await opened(rig, count=0, kind=Kind.FIFO)
    await rig.send_all("orders", [Draft(body=name.encode(), group="g") for name in ("1", "2", "3")])
    await claim(rig, job, limit=2)
    await rig.claims.free(rig.queue("orders"), "spark", principal=WHO)
    assert [lease.message.body for lease in await rig.receive("orders", limit=10)] == [b"1", b"2", b"3"]
    assert await rig.store.check() == []


async def test_a_queue_takes_its_jobs_with_it(rig: Rig) -> None:
    job = await opened(rig)
    await claim(rig, job)
    gone = rig.queue("orders")
    await rig.catalog.delete_queue(gone, principal=WHO)
    with pytest.raises(QueueNotFound):
        await rig.claims.read(gone, "spark", 1, epoch=job.epoch, start=0, stop=1)
    await rig.store.advance(now=rig.now)
    await rig.create("orders")
    assert await rig.claims.jobs(rig.queue("orders")) == []
    assert await rig.store.check() == []


async def test_claims_made_at_the_same_time_never_share_a_message(rig: Rig) -> None:
    await opened(rig, count=MANY)
    queue = rig.queue("orders")
    jobs = [await rig.claims.open(queue, f"job-{n}") for n in range(4)]
    claims = await asyncio.gather(
        *(rig.claims.claim(queue, job.name, 1, epoch=job.epoch, limit=2_500, principal=WHO) for job in jobs)
    )
    assert sum(each.count for each in claims) == MANY
    holders = [job for job, each in zip(jobs, claims, strict=True) if each.count]
    found = [body for job in holders for body in await bodies(rig, job, stop=2_500)]
    assert sorted(found) == sorted(b"%d" % n for n in range(MANY))


@pytest.mark.parametrize("limit", [0, CLAIM_COUNT + 1])
async def test_a_claim_has_a_size(rig: Rig, limit: int) -> None:
    job = await opened(rig)
    with pytest.raises(Invalid):
        await claim(rig, job, limit=limit)


@pytest.mark.parametrize("name", ["", "a b", "é", "x" * 129, "/"])
async def test_a_job_has_a_plain_name(rig: Rig, name: str) -> None:
    await rig.create("orders")
    with pytest.raises(Invalid):
        await rig.claims.open(rig.queue("orders"), name)


async def test_a_claim_that_was_interrupted_goes_on_under_its_number(rig: Rig) -> None:
    job = await opened(rig, count=MANY)
    claiming = asyncio.create_task(claim(rig, job, limit=MANY))
    while not (await rig.counters("orders")).leased_count:
        await asyncio.sleep(0)
    claiming.cancel()
    await asyncio.gather(claiming, return_exceptions=True)
    await rig.restart()
    assert (await rig.counters("orders")).ready_count > 0
    job = await rig.claims.open(rig.queue("orders"), "spark")
    assert (await claim(rig, job, limit=7)).count == MANY
    assert await bodies(rig, job, stop=MANY) == [b"%d" % n for n in range(MANY)]


async def test_an_end_that_was_interrupted_is_carried_out_by_upkeep(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await opened(rig, count=4)
    await claim(rig, job, 1, limit=2)
    await claim(rig, job, 2, limit=2)
    with monkeypatch.context() as crash:
        crash.setattr(type(rig.engine), "_end_claims", _die)
        for end in (ack(rig, job, upto=1), rig.claims.free(rig.queue("orders"), "spark", principal=WHO)):
            with pytest.raises(RuntimeError):
                await end
    await rig.restart()
    await rig.store.advance(now=rig.now)
    counters = await rig.counters("orders")
    assert (counters.acked_count, counters.ready_count, counters.leased_count) == (2, 2, 0)
    assert await rig.store.check() == []


async def _die(*_: object) -> int:
    raise RuntimeError("the power is gone")
