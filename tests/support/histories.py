"""Random histories: Courier and the executable specification do the same things, and nobody can tell them apart.

Every step compares what was answered, then the counters and the contents of all queues. At the end of a history the
journal must tell the same story, message by message, and rebuild the same state.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Iterable, Sequence
from copy import deepcopy
from itertools import permutations
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from couriermq.core.errors import CourierError, QueueNotFound
from couriermq.core.events import Event, EventKind
from couriermq.core.model import (
    DEDUP_MS,
    Ack,
    Draft,
    Extend,
    Kind,
    LateAck,
    Message,
    Queue,
    QueueSettings,
    Release,
    Sent,
    Settlement,
    State,
)
from tests.support.engines import TENANT, WHO, Rig, forget
from tests.support.model import Happened, Held, Model, Ticket
from tests.support.replay import as_replayed, replay

T = TypeVar("T")

# Sources before the queues that take their dead letters, so that a look at each in turn sees everything.
CHAIN = ("orders", "graves", "last")
LINES = ("lines", "fallen")
NAMES = (*CHAIN, "plain", *LINES)

# Few values, so that instants coincide and names collide.
jumps = st.sampled_from([0, 0, 0, 1, 499, 500, 1_000, 1_500])
delays = st.sampled_from([None, 0, 500, 1_000])
leases = st.sampled_from([0, 500, 1_000, 1_500, 60_000, 60_000])
names = st.sampled_from([*NAMES, "orders", "lines", "lines"])
picks = st.integers(0, 2**16)

drafts = st.builds(
    Draft,
    body=st.sampled_from([b"", b"x", b"hello", b"large" * 500]),
    content_type=st.sampled_from(["text/plain", "application/json"]),
    attributes=st.sampled_from([{}, {"colour": "red"}, {"count": 1, "fine": True, "weight": 1.5}]),
    id=st.sampled_from([None, None, None, None, "a", "b"]),
    delay_ms=st.sampled_from([None, None, 0, 500]),
    retention_ms=st.sampled_from([None] * 8 + [1, 1_000, 2_500]),
    group=st.sampled_from([None, "", "x", "x", "x", "y"]),
    dedup_id=st.sampled_from([None] * 6 + ["d"]),
    trace=st.sampled_from([None, "00-trace"]),
)
queue_settings = st.builds(
    QueueSettings,
    delay_ms=st.sampled_from([0, 0, 500]),
    retention_ms=st.sampled_from([10_000_000, 10_000_000, 10_000_000, 60_000, 3_000, 1_000]),
    max_attempts=st.sampled_from([1, 1, 2, 3, None]),
    max_leased=st.sampled_from([None, None, None, None, 1, 2, 5]),
    retry_delay_ms=st.sampled_from([0, 0, 500]),
    late_ack=st.sampled_from(LateAck),
    archive_bodies=st.just(True),
)

STRANGER = Queue(key=2**31, id="nobody", tenant=TENANT, name="nobody")
Choice = tuple[str, int, int | None, int]
settlements: st.SearchStrategy[Choice] = st.tuples(
    st.sampled_from(["ack"] * 3 + ["release"] * 3 + ["give back", "extend", "extend", "forge"]),
    picks,
    delays,
    leases,
)


Happening = tuple[tuple[str, Draft | int], Any]
"""A call of a rush, and its outcome."""


class Histories(RuleBasedStateMachine):
    """One history of one Courier; a subclass says which."""

    knows_untried = True
    """Whether a lease can be given back as if it had never been."""

    knows_jobs = True
    """Whether messages can be claimed, and staged."""

    is_concurrent = False
    """Whether calls that come together may be in different commits."""

    def make_rig(self) -> Rig:
        raise NotImplementedError

    def orders_of(self, calls: list[Happening]) -> Iterable[list[Happening]]:
        """The orders in which calls that came together may have happened: sends before receives where all share a
        commit, else receives between the sends as well."""
        sends = [happening for happening in calls if not isinstance(happening[0][1], int)]
        receives = [happening for happening in calls if isinstance(happening[0][1], int)]
        yield sends + receives
        if self.is_concurrent:
            sends.sort(key=lambda happening: happening[1].seq)
            for places in permutations(range(len(calls)), len(receives)):
                others = iter(sends)
                at = dict(zip(places, receives, strict=True))
                yield [at[place] if place in at else next(others) for place in range(len(calls))]

    def as_sent(self, draft: Draft) -> Draft:
        """What arrives of a draft by this way in."""
        return draft

    def as_shown(self, message: Message) -> Message:
        """What can be seen of a message by this way out."""
        return message

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="courier-histories-"))
        self.rig = self.make_rig()
        self.model = Model()
        self.held: list[tuple[str, Ticket]] = []  # every receipt that was ever handed out
        self.last_seq = 0
        self.series = 0
        self.done: dict[str, int] = {}  # by queue, the highest claim that is over
        self.run(self.rig.open())

    def teardown(self) -> None:
        try:
            self.run(self.compare_journal())
            findings = self.run(self.rig.store.check())
            assert findings == [], findings
        finally:
            self.run(self.rig.close())
            self.runner.close()
            shutil.rmtree(self.folder)
            forget(self.folder)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    @property
    def now(self) -> int:
        return self.rig.now

    def queue(self, name: str) -> Queue:
        return self.rig.queue(name)

    @initialize(
        chosen=st.lists(queue_settings, min_size=len(NAMES), max_size=len(NAMES)),
        first=st.lists(st.tuples(names, drafts), max_size=12),
    )
    def create_queues(self, chosen: list[QueueSettings], first: list[tuple[str, Draft]]) -> None:
        for name, each in reversed(list(zip(NAMES, chosen, strict=True))):
            self.create(name, each)
        for name, draft in first:
            self.send(name, [draft], 0)

    def create(self, name: str, chosen: QueueSettings) -> None:
        kind = Kind.FIFO if name in LINES else Kind.STANDARD
        created = self.rig.catalog.create_queue(
            TENANT, name, kind=kind, settings=self.with_grave(name, chosen), principal=WHO
        )
        self.model.put_queue(self.run(created))

    def with_grave(self, name: str, chosen: QueueSettings) -> QueueSettings:
        """The settings with the dead letter queue that the name asks for."""
        chain = next((chain for chain in (CHAIN, LINES) if name in chain[:-1]), None)
        target = self.queue(chain[chain.index(name) + 1]).id if chain else None
        return msgspec.structs.replace(chosen, dead_letter_queue=target)

    def shown(self, held: Sequence[Held]) -> list[tuple[Message, int]]:
        return [(self.as_shown(each.message), each.expires_at) for each in held]

    def wait(self, name: str, ms: int) -> None:
        """Let time pass and nobody notice but the queues whose dead letters might be on their way to `name`."""
        self.rig.clock.advance(ms=ms)
        for chain in (CHAIN, LINES):
            for source in chain[: chain.index(name)] if name in chain else ():
                self.run(self.rig.counters(source))

    def busy(self, pick: int, *states: State) -> str:
        """A queue that has messages in one of these states, where there is one."""
        ids = {item.queue_id for item in self.model.items.values() if item.state in states}
        found = [name for name in NAMES if self.queue(name).id in ids]
        return found[pick % len(found)] if found else NAMES[pick % len(NAMES)]

    # -- the data plane ---------------------------------------------------------------------------------------

    @rule(name=names, chosen=st.lists(drafts, min_size=1, max_size=6), ms=jumps)
    def send(self, name: str, chosen: list[Draft], ms: int) -> None:
        self.wait(name, ms)
        chosen = [self.as_sent(draft) for draft in chosen]
        outcomes = self.run(self.rig.send_all(name, chosen))
        for draft, sent in zip(chosen, outcomes, strict=True):
            assert isinstance(sent, Sent)
            assert sent.duplicate or sent.seq > self.last_seq
            self.last_seq = max(self.last_seq, sent.seq)
            assert sent == self.model.send(self.queue(name), draft, now=self.now, given=sent)

    @rule(pick=picks, limit=st.integers(1, 6), group_limit=st.sampled_from([None, 1, 2]), lease_ms=leases, ms=jumps)
    def receive(self, pick: int, limit: int, group_limit: int | None, lease_ms: int, ms: int) -> None:
        name = self.busy(pick, State.READY)
        self.wait(name, ms)
        self.receive_from(name, limit=limit, lease_ms=lease_ms, group_limit=group_limit)

    def receive_from(self, name: str, **order: Any) -> list[tuple[str, Ticket]]:
        received = self.run(self.rig.receive(name, **order))
        expected = self.model.receive(self.queue(name), now=self.now, **order)
        assert [(lease.message, lease.expires_at) for lease in received] == self.shown(expected)
        fresh = [(a.receipt, b.ticket) for a, b in zip(received, expected, strict=True)]
        self.held += fresh
        assert len({receipt for receipt, _ in self.held}) == len(self.held)
        return fresh

    @rule(pick=picks, choices=st.lists(settlements, min_size=1, max_size=5), ms=jumps)
    def settle(self, pick: int, choices: list[Choice], ms: int) -> None:
        name = self.busy(pick, State.LEASED)
        self.wait(name, ms)
        self.settle_all(name, [self.settlement(name, choice) for choice in choices])

    def settle_all(self, name: str, chosen: Sequence[tuple[Settlement, Ticket | None]]) -> None:
        outcomes = self.run(self.rig.settle(name, *(settlement for settlement, _ in chosen)))
        expected = self.model.settle(self.queue(name), chosen, now=self.now)
        assert [type(o) if isinstance(o, CourierError) else o for o in outcomes] == expected

    @rule(pick=picks, limit=st.integers(1, 6), lease_ms=leases, choices=st.lists(settlements, min_size=1, max_size=5))
    def work(self, pick: int, limit: int, lease_ms: int, choices: list[Choice]) -> None:
        """What a consumer does: receive, then settle some of it."""
        self.receive(pick, limit, None, lease_ms, 0)
        self.settle(pick, choices, 0)

    work_more = work  # the most common thing should also be the most likely

    @rule(
        name=names, bodies=st.lists(st.binary(max_size=2), max_size=50), limits=st.lists(st.integers(1, 40), max_size=3)
    )
    def pass_through(self, name: str, bodies: list[bytes], limits: list[int]) -> None:
        """What happens most by far: messages with nothing special are received many at a time, and each many acked."""
        self.run(self.rig.store.advance(now=self.now))
        if bodies:
            self.send(name, [Draft(body=body) for body in bodies], 0)
        parts = [self.receive_from(name, limit=limit, lease_ms=60_000) for limit in limits]
        for part in parts:
            if part:
                self.settle_all(name, [(Ack(receipt), ticket) for receipt, ticket in part])

    pass_more_through = pass_through

    @rule(calls=st.lists(st.tuples(names, drafts | st.integers(1, 3)), min_size=2, max_size=6), stranger=st.booleans())
    def rush(self, calls: list[tuple[str, Draft | int]], stranger: bool) -> None:
        """Several callers at once: their calls share a commit and happen one after the other, also if one fails."""
        calls = [(name, self.as_sent(call) if isinstance(call, Draft) else call) for name, call in calls]
        outcomes = self.run(self.all_at_once(calls, stranger))
        happened = list(zip(calls, outcomes, strict=True))
        for order in self.orders_of(happened):
            model = deepcopy(self.model)
            received = self.replayed(model, order)
            if received is not None:
                break
        else:
            raise AssertionError(f"no order of these calls explains what came of them: {happened}")
        self.model = model
        self.held += received
        self.last_seq = max([self.last_seq, *(one.seq for one in outcomes if not isinstance(one, list))])

    def replayed(self, model: Model, calls: list[Happening]) -> list[tuple[str, Ticket]] | None:
        """What calls, one after the other, receive; None where the model says that something else comes of them."""
        received: list[tuple[str, Ticket]] = []
        for (name, call), outcome in calls:
            queue = self.queue(name)
            if isinstance(call, Draft):
                if outcome != model.send(queue, call, now=self.now, given=outcome):
                    return None
            else:
                expected = model.receive(queue, limit=call, lease_ms=1_000, now=self.now)
                if [(lease.message, lease.expires_at) for lease in outcome] != self.shown(expected):
                    return None
                received += [(a.receipt, b.ticket) for a, b in zip(outcome, expected, strict=True)]
        return received

    async def all_at_once(self, calls: list[tuple[str, Draft | int]], stranger: bool) -> list[Any]:
        orders = [
            self.rig.send_one(name, call)
            if isinstance(call, Draft)
            else self.rig.receive(name, limit=call, lease_ms=1_000)
            for name, call in calls
        ]
        failing = self.rig.broker.receive(STRANGER, principal=WHO) if stranger else asyncio.sleep(0)
        *outcomes, refusal = await asyncio.gather(*orders, failing, return_exceptions=True)
        assert isinstance(refusal, QueueNotFound) == stranger
        return outcomes

    def settlement(self, name: str, choice: Choice) -> tuple[Settlement, Ticket | None]:
        """Mostly by a late receipt of this queue, now and then by any receipt or a forged one."""
        do, pick, delay_ms, lease_ms = choice
        ours = [(receipt, ticket) for receipt, ticket in self.held if ticket.queue_id == self.queue(name).id]
        pool: Sequence[tuple[str, Ticket | None]] = ours if ours and pick % 8 else self.held
        receipt, ticket = pool[-1 - pick % min(len(pool), 6)] if pool and do != "forge" else ("forged", None)
        match do:
            case "extend":
                return Extend(receipt, lease_ms), ticket
            case "release":
                return Release(receipt, delay_ms), ticket
            case "give back":
                return Release(receipt, delay_ms, untried=self.knows_untried), ticket
        return Ack(receipt), ticket

    # -- jobs -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.knows_jobs)
    @rule(pick=picks, limit=st.integers(1, 6), again=st.booleans(), ms=jumps)
    def claim(self, pick: int, limit: int, again: bool, ms: int) -> None:
        """A job claims, or asks again for what it has claimed."""
        name = self.busy(pick, State.READY)
        self.wait(name, ms)
        queue = self.queue(name)
        numbers = [number for key, number in self.model.claims if key == queue.id]
        fresh = max([*numbers, self.done.get(queue.id, 0)]) + 1
        number = numbers[pick % len(numbers)] if again and numbers else fresh
        found = self.run(self.claimed(queue, number, limit))
        assert found == self.model.claim(queue, number, limit=limit, now=self.now)

    async def claimed(self, queue: Queue, number: int, limit: int) -> list[Message]:
        job = await self.rig.claims.open(queue, "job")
        claim = await self.rig.claims.claim(queue, "job", number, epoch=job.epoch, limit=limit, principal=WHO)
        if not claim.count:
            return []
        part = await self.rig.claims.read(queue, "job", number, epoch=job.epoch, start=0, stop=claim.count)
        return [message for _, message in part.messages]

    @precondition(lambda self: self.model.claims)
    @rule(pick=picks, acked=st.booleans(), ms=jumps)
    def end_claims(self, pick: int, acked: bool, ms: int) -> None:
        """A job acks some of its claims, or an operator frees all of them."""
        key, number = sorted(self.model.claims)[pick % len(self.model.claims)]
        queue = next((queue for name in NAMES if (queue := self.queue(name)).id == key), None)
        if queue is None:  # it was deleted, and its claims with it
            self.model.claims = {where: seqs for where, seqs in self.model.claims.items() if where[0] != key}
            return
        self.wait(queue.name, ms)
        upto = number if acked else max(number for where, number in self.model.claims if where == key)
        count = self.run(self.ended(queue, upto, acked))
        self.done[key] = max(upto, self.done.get(key, 0))
        assert count == self.model.end_claims(queue, upto=upto, acked=acked, now=self.now)

    async def ended(self, queue: Queue, upto: int, acked: bool) -> int:
        if not acked:
            return await self.rig.claims.free(queue, "job", principal=WHO)
        job = await self.rig.claims.open(queue, "job")
        return await self.rig.claims.ack(queue, "job", upto=upto, epoch=job.epoch, principal=WHO)

    @precondition(lambda self: self.knows_jobs)
    @rule(name=names, chosen=st.lists(drafts, min_size=1, max_size=6), again=st.booleans(), ms=jumps)
    def publish(self, name: str, chosen: list[Draft], again: bool, ms: int) -> None:
        """Drafts are staged and published, once or twice over."""
        self.wait(name, ms)
        self.series += 1
        sent = self.run(self.published(self.queue(name), chosen, again))
        for draft in chosen:
            given = sent[0] if sent else Sent(0, "")
            if not self.model.send(self.queue(name), draft, now=self.now, given=given).duplicate:
                self.last_seq = sent.pop(0).seq
        assert sent == [], sent

    async def published(self, queue: Queue, chosen: list[Draft], again: bool) -> list[Sent]:
        before = (await self.rig.store.spans())[0].next
        for attempt in range(1 + again):
            stage = f"stage-{self.series}-{attempt}"
            await self.rig.stages.stage(queue, stage, 0, chosen, principal=WHO)
            await self.rig.stages.publish(queue, "series", self.series, [stage], principal=WHO)
        entries = await self.rig.store.read_events(start=before, limit=1_000)
        events = [entry.event for entry in entries if entry.event.kind == EventKind.SENT]
        return [Sent(event.seq or 0, event.message_id or "") for event in events]

    # -- meddling ---------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.model.items) > 3)
    @rule(
        do=st.sampled_from(["purge", "remove", "cancel", "move", "redrive", "delete"]), at=names, pick=picks, ms=jumps
    )
    def meddle(self, do: str, at: str, pick: int, ms: int) -> None:
        """What an operator does."""
        self.wait(at, ms)
        getattr(self, f"_{do}")(at, pick)

    def some_seqs(self, name: str, pick: int) -> list[int]:
        """Some seqs of a queue, and one that is not in it."""
        return [item.seq for item in self.model.inside(self.queue(name)) if pick >> item.seq % 16 & 1] + [2**40]

    def _purge(self, name: str, pick: int) -> None:
        count = self.run(self.rig.purge(name))
        assert count == len(self.model.remove(self.queue(name), seqs=None, kind=EventKind.PURGED, now=self.now))

    def _remove(self, name: str, pick: int) -> None:
        seqs = self.some_seqs(name, pick)
        removed = self.run(self.rig.remove(name, seqs))
        expected = self.model.remove(self.queue(name), seqs=seqs, kind=EventKind.PURGED, now=self.now)
        assert sorted(removed) == sorted(expected)

    def _cancel(self, name: str, pick: int) -> None:
        there = self.model.browse(self.queue(name), now=self.now)
        if not there:
            return
        chosen = there[pick % len(there)].id
        oldest = min((m for m in there if m.id == chosen), key=lambda message: message.seq)
        try:
            cancelled = self.run(self.rig.cancel(name, chosen))
        except CourierError:
            assert oldest.attempts
            return
        assert cancelled == self.as_shown(oldest)
        self.model.remove(self.queue(name), seqs=[oldest.seq], kind=EventKind.CANCELLED, now=self.now)

    def _move(self, name: str, pick: int) -> None:
        goal = [other for other in NAMES if other != name][pick % (len(NAMES) - 1)]
        self.wait(goal, 0)
        seqs = self.some_seqs(name, pick) if pick % 2 else None
        source, target = self.queue(name), self.queue(goal)
        count = self.run(self.rig.move(name, goal, seqs))
        assert count == self.model.move(source, target, seqs=seqs, kind=EventKind.MOVED, now=self.now)

    def _redrive(self, name: str, pick: int) -> None:
        dead = {item.queue_id for item in self.model.items.values() if item.death}
        name = next((each for each in NAMES if self.queue(each).id in dead), name)
        self.wait(name, 0)
        seqs = self.some_seqs(name, pick) if pick % 2 else None
        count = self.run(self.rig.redrive(name, seqs))
        assert count == self.model.move(self.queue(name), None, seqs=seqs, kind=EventKind.REDRIVEN, now=self.now)

    def _delete(self, name: str, pick: int) -> None:
        """Delete a queue and create it again: nothing of the old one may show in the new one."""
        gone = self.queue(name)
        if self.rig.catalog.dead_letter_sources(gone):
            return
        self.run(self.rig.counters(name))  # what had happened by now has happened
        self.run(self.rig.catalog.delete_queue(gone, principal=WHO))
        self.model.delete_queue(gone, now=self.now)
        self.run(self.rig.store.advance(now=self.now))
        self.create(name, gone.settings)

    # -- time, restarts, settings -----------------------------------------------------------------------------

    @precondition(lambda self: self.model.items)
    @rule(ms=st.sampled_from([1, 499, 500, 500, 1_000, 1_000, 2_500, 10_000, DEDUP_MS]), kept=st.booleans())
    def jump(self, ms: int, kept: bool) -> None:
        """Time passes, noticed by the store's upkeep or only by the next look."""
        self.rig.clock.advance(ms=ms)
        if kept:
            due_at = self.run(self.rig.store.advance(now=self.now))
            assert due_at is None or due_at > self.now

    @rule()
    def restart(self) -> None:
        self.run(self.rig.restart())

    @rule(name=names, chosen=queue_settings)
    def change_settings(self, name: str, chosen: QueueSettings) -> None:
        self.run(self.rig.store.advance(now=self.now))
        self.model.advance(self.now)
        changed = self.rig.catalog.change_queue(self.queue(name), settings=self.with_grave(name, chosen), principal=WHO)
        self.model.put_queue(self.run(changed))

    # -- what must hold after every step ----------------------------------------------------------------------

    @invariant()
    def looks_the_same(self) -> None:
        if self.model.queues:
            self.run(self.compare_looks())

    async def compare_looks(self) -> None:
        for name in NAMES:
            queue = self.queue(name)
            assert await self.rig.counters(name) == self.model.counters(queue, now=self.now), name
            expected = [self.as_shown(message) for message in self.model.browse(queue, now=self.now)]
            assert await self.rig.browse(name, limit=7) == expected, name

    async def compare_journal(self) -> None:
        """The journal tells each message's story as the model does, and rebuilds the state."""
        self.model.advance(self.now)
        await self.rig.store.advance(now=self.now)
        events = await self.rig.events()
        told: dict[int, list[Happened]] = {}
        for event in events:
            if event.seq is not None:
                happened = Happened(EventKind(event.kind), event.at, event.queue_id or "", event.attempt or 0)
                told.setdefault(event.seq, []).append(happened)
        assert told == self.model.history
        check_turns(events)
        queues = self.rig.catalog.queues(TENANT)
        alive = {m.seq: as_replayed(m, q.id) for q in queues for m in self.model.browse(q, now=self.now)}
        assert replay(events) == alive


def check_turns(events: Sequence[Event]) -> None:
    """The events of each message have the turns from 1 on, in this order, and all of them know when it was sent."""
    of_messages: dict[int, list[Event]] = {}
    for event in events:
        if event.seq is not None:
            of_messages.setdefault(event.seq, []).append(event)
    for own in of_messages.values():
        assert [event.turn for event in own] == list(range(1, len(own) + 1)), own
        assert own[0].kind == EventKind.SENT, own
        assert {event.sent_at for event in own} == {own[0].at}, own
