"""The specification, executable: what queues do, as plainly as it can be said and as slowly as it likes.

Nothing here knows of disks, indexes or transactions. Every operation first lets time do its work (`advance`), then
looks at all messages there are. An engine is right when nobody can tell it from this.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from couriermq.core.errors import CourierError, InvalidReceipt, LeaseLost
from couriermq.core.events import EventKind
from couriermq.core.model import (
    DEDUP_MS,
    UNENDING,
    Ack,
    Counters,
    Death,
    Draft,
    Extend,
    Kind,
    LateAck,
    Message,
    Queue,
    Release,
    Sent,
    Settled,
    Settlement,
    State,
)

EXHAUSTED = "attempts exhausted"
LAPSES = 10
"""So many leases more end in an outbox, without an answer, before a message is dead."""
DEFAULT_GROUP = ""


@dataclass(frozen=True)
class Ticket:
    """What a receipt stands for; the model tells genuine ones by their having been given out."""

    queue_id: str
    seq: int
    lease_no: int


@dataclass(frozen=True)
class Held:
    """A lease as the model hands it out."""

    ticket: Ticket
    message: Message
    expires_at: int


@dataclass(frozen=True)
class Happened:
    """One event of one message: what, when, and in which queue."""

    kind: EventKind
    at: int
    queue_id: str
    attempt: int


@dataclass
class Item:
    """A live message in one queue."""

    seq: int
    id: str
    draft: Draft
    queue_id: str
    sent_at: int
    entered_at: int
    due_at: int
    state: State
    delay_ms: int
    retention_ms: int | None
    attempts: int = 0
    lease_no: int = 0
    death: Death | None = None

    @property
    def group(self) -> str:
        return self.draft.group or DEFAULT_GROUP

    @property
    def size(self) -> int:
        return len(self.draft.body)


Change = Callable[[Item, int], None]


@dataclass
class Model:
    """All queues of a store. The caller says which seq and id a message got: inventing them is the engine's affair."""

    queues: dict[str, Queue] = field(default_factory=dict)
    items: dict[int, Item] = field(default_factory=dict)
    history: dict[int, list[Happened]] = field(default_factory=dict)
    taken: dict[tuple[str, str], tuple[int, Sent]] = field(default_factory=dict)
    tickets: set[Ticket] = field(default_factory=set)
    ever: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many messages a queue has ever seen sent, acked and dead."""
    claims: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """By queue and number, the seqs that a job holds."""

    # -- the queues themselves --------------------------------------------------------------------------------

    def put_queue(self, queue: Queue) -> None:
        self.queues[queue.id] = queue

    def delete_queue(self, queue: Queue, *, now: int) -> None:
        """A queue goes with all that is in it."""
        self.remove(queue, seqs=None, kind=EventKind.PURGED, now=now)
        del self.queues[queue.id]

    def inside(self, queue: Queue) -> list[Item]:
        """A queue's messages in the order in which they came into it."""
        found = (item for item in self.items.values() if item.queue_id == queue.id)
        return sorted(found, key=lambda item: (item.entered_at, item.seq))

    # -- time -------------------------------------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Let everything happen to every message that time had in store for it, in the order of its instants."""
        for item in list(self.items.values()):
            while item.seq in self.items and self._next_change(item)[0] <= now:
                at, change = self._next_change(item)
                change(item, at)

    def _next_change(self, item: Item) -> tuple[int, Change]:
        """What happens next to a message; a lease that ends as retention ends is a failed attempt first."""
        too_old_at = self.discard_at(item)
        if item.state is State.READY or too_old_at < item.due_at:
            return too_old_at, self._discard
        return item.due_at, self._delay_ends if item.state is State.DELAYED else self._lease_ends

    def discard_at(self, item: Item) -> int:
        own, queue = item.retention_ms, self.queues[item.queue_id]
        return item.entered_at + (queue.settings.retention_ms if own is None else own)

    def _delay_ends(self, item: Item, at: int) -> None:
        item.state = State.READY

    def _lease_ends(self, item: Item, at: int) -> None:
        self._note(item, EventKind.LEASE_EXPIRED, at)
        self._fail(item, at, delay_ms=None, spare=LAPSES if self.queues[item.queue_id].owner else 0)

    def _discard(self, item: Item, at: int) -> None:
        self._note(item, EventKind.DISCARDED, at)
        del self.items[item.seq]

    def _fail(self, item: Item, at: int, *, delay_ms: int | None, spare: int = 0) -> bool:
        """An attempt has failed at `at`; whether it was the last one."""
        settings = self.queues[item.queue_id].settings
        if settings.max_attempts is not None and item.attempts >= settings.max_attempts + spare:
            self._die(item, at)
            return True
        item.due_at = at + (settings.retry_delay_ms if delay_ms is None else delay_ms)
        item.state = State.DELAYED if item.due_at > at else State.READY
        return False

    def _die(self, item: Item, at: int) -> None:
        self.ever[item.queue_id, "dead"] += 1
        target = self.queues.get(self.queues[item.queue_id].settings.dead_letter_queue or "")
        if target is None:
            self._discard(item, at)
            return
        death = Death(reason=EXHAUSTED, source_queue=item.queue_id, attempts=item.attempts, died_at=at)
        self._note(item, EventKind.DEAD_LETTERED, at)
        self._enter(item, target, at)
        item.death = death

    def _enter(self, item: Item, target: Queue, at: int) -> None:
        """Into another queue as if it had just come, but for its seq, its id and when it was sent."""
        self.ever[target.id, "sent"] += 1
        item.queue_id, item.entered_at, item.due_at, item.state = target.id, at, at, State.READY
        item.attempts, item.retention_ms, item.death = 0, None, None

    def _note(self, item: Item, kind: EventKind, at: int) -> None:
        self.history.setdefault(item.seq, []).append(Happened(kind, at, item.queue_id, item.attempts))

    # -- send -------------------------------------------------------------------------------------------------

    def send(self, queue: Queue, draft: Draft, *, now: int, given: Sent) -> Sent:
        """Take a message under the seq (and, where the draft has none, the id) that `given` names."""
        self.advance(now)
        dedup_id = draft.dedup_id or draft.id
        if queue.kind is Kind.FIFO and dedup_id is not None:
            until_at, first = self.taken.get((queue.id, dedup_id), (now, given))
            if now < until_at:
                return Sent(first.seq, first.id, duplicate=True)
        item = self._new_item(queue, draft, now, given)
        self.items[item.seq] = item
        self.ever[queue.id, "sent"] += 1
        self._note(item, EventKind.SENT, now)
        sent = Sent(item.seq, item.id)
        if queue.kind is Kind.FIFO and dedup_id is not None:
            self.taken[queue.id, dedup_id] = (now + DEDUP_MS, sent)
        return sent

    def _new_item(self, queue: Queue, draft: Draft, now: int, given: Sent) -> Item:
        delay_ms = self.queues[queue.id].settings.delay_ms if draft.delay_ms is None else draft.delay_ms
        return Item(
            seq=given.seq,
            id=draft.id or given.id,
            draft=draft,
            queue_id=queue.id,
            sent_at=now,
            entered_at=now,
            due_at=now + delay_ms,
            state=State.DELAYED if delay_ms else State.READY,
            delay_ms=delay_ms,
            retention_ms=draft.retention_ms,
        )

    # -- receive ----------------------------------------------------------------------------------------------

    def receive(
        self, queue: Queue, *, limit: int, lease_ms: int, now: int, group_limit: int | None = None
    ) -> list[Held]:
        self.advance(now)
        waiting = self.inside(queue)
        chosen = _in_groups(waiting, group_limit) if queue.kind is Kind.FIFO else _longest_ready(waiting)
        most = min(limit, self._leasable(queue))
        return [self._lease(item, now + lease_ms, now) for item in list(chosen)[:most]]

    def _leasable(self, queue: Queue) -> int:
        """How many messages more may be in somebody's hands."""
        most = self.queues[queue.id].settings.max_leased
        held = sum(item.state is State.LEASED for item in self.inside(queue))
        return len(self.items) if most is None else max(0, most - held)

    def _lease(self, item: Item, expires_at: int, now: int) -> Held:
        item.state, item.due_at = State.LEASED, expires_at
        item.attempts += 1  # counted when leased, not when acked
        item.lease_no += 1
        ticket = Ticket(item.queue_id, item.seq, item.lease_no)
        self.tickets.add(ticket)
        self._note(item, EventKind.RECEIVED, now)
        return Held(ticket, self.message(item), expires_at)

    # -- claims -----------------------------------------------------------------------------------------------

    def claim(self, queue: Queue, number: int, *, limit: int, now: int) -> list[Message]:
        """As a receive, but without end; a claim that is there is the same again, as far as it is left."""
        self.advance(now)
        if (queue.id, number) not in self.claims:
            waiting = self.inside(queue)
            chosen = _in_groups(waiting, None) if queue.kind is Kind.FIFO else _longest_ready(waiting)
            most = min(limit, self._leasable(queue))
            held = [self._lease(item, UNENDING, now).message.seq for item in list(chosen)[:most]]
            if held:
                self.claims[queue.id, number] = held
        return [self.message(item) for item in self._claimed(queue, number)]

    def _claimed(self, queue: Queue, number: int) -> list[Item]:
        items = [self.items[seq] for seq in self.claims.get((queue.id, number), ()) if seq in self.items]
        return [item for item in items if item.queue_id == queue.id and item.due_at == UNENDING]

    def end_claims(self, queue: Queue, *, upto: int, acked: bool, now: int) -> int:
        """Ack or release what is left of claims up to a number; how many messages that are."""
        self.advance(now)
        count = 0
        for number in sorted(number for key, number in self.claims if key == queue.id and number <= upto):
            for item in self._claimed(queue, number):
                count += 1
                self._note(item, EventKind.ACKED if acked else EventKind.RELEASED, now)
                if acked:
                    self.ever[queue.id, "acked"] += 1
                    del self.items[item.seq]
                else:
                    self._fail(item, now, delay_ms=None)
            del self.claims[queue.id, number]
        return count

    # -- settle -----------------------------------------------------------------------------------------------

    def settle(
        self, queue: Queue, settlements: Sequence[tuple[Settlement, Ticket | None]], *, now: int
    ) -> list[Settled | type[CourierError]]:
        """Each settlement comes with what its receipt stands for: None when it was never handed out.

        A message settles once in a call, however many of its receipts the call names.
        """
        self.advance(now)
        done: set[int] = set()
        outcomes = []
        for settlement, ticket in settlements:
            lost = ticket is not None and ticket.queue_id == queue.id and ticket.seq in done
            outcome = LeaseLost if lost else self._settle(queue, settlement, ticket, now)
            if isinstance(outcome, Settled) and not isinstance(settlement, Extend):
                done.add(outcome.seq)
            outcomes.append(outcome)
        return outcomes

    def _settle(
        self, queue: Queue, settlement: Settlement, ticket: Ticket | None, now: int
    ) -> Settled | type[CourierError]:
        if ticket not in self.tickets or ticket.queue_id != queue.id:
            return InvalidReceipt
        item = self.items.get(ticket.seq)
        if item is None or item.queue_id != queue.id:
            return LeaseLost
        alive = item.state is State.LEASED and item.lease_no == ticket.lease_no and now < item.due_at
        match settlement:
            case Ack() if alive or self._accepts_late(queue):
                self._note(item, EventKind.ACKED, now)
                self.ever[queue.id, "acked"] += 1
                del self.items[item.seq]
                return Settled(item.seq, item.id)
            case Release() if alive:
                self._note(item, EventKind.RELEASED, now)
                item.attempts -= settlement.untried  # the only way to get an attempt back
                return self._released(item, settlement, now)
            case Release() if item.state is not State.LEASED and self._accepts_late(queue):
                self._note(item, EventKind.RELEASED, now)
                return self._released(item, settlement, now)
            case Extend() if alive:
                item.due_at = now + settlement.lease_ms
                self._note(item, EventKind.EXTENDED, now)
                return Settled(item.seq, item.id, expires_at=item.due_at)
        return LeaseLost

    def _released(self, item: Item, settlement: Release, now: int) -> Settled:
        """It is dead where that was the last attempt, unless it was none."""
        spare = item.attempts if settlement.untried else 0
        return Settled(item.seq, item.id, dead=self._fail(item, now, delay_ms=settlement.delay_ms, spare=spare))

    def _accepts_late(self, queue: Queue) -> bool:
        return self.queues[queue.id].settings.late_ack is LateAck.ACCEPT

    # -- look -------------------------------------------------------------------------------------------------

    def browse(self, queue: Queue, *, now: int) -> list[Message]:
        self.advance(now)
        return [self.message(item) for item in self.inside(queue)]

    def counters(self, queue: Queue, *, now: int) -> Counters:
        self.advance(now)
        inside = self.inside(queue)
        states = [item.state for item in inside]
        return Counters(
            ready_count=states.count(State.READY),
            delayed_count=states.count(State.DELAYED),
            leased_count=states.count(State.LEASED),
            byte_count=sum(item.size for item in inside),
            oldest_at=min((item.entered_at for item in inside), default=None),
            sent_count=self.ever[queue.id, "sent"],
            acked_count=self.ever[queue.id, "acked"],
            dead_count=self.ever[queue.id, "dead"],
        )

    def message(self, item: Item) -> Message:
        draft = item.draft
        return Message(
            seq=item.seq,
            id=item.id,
            state=item.state,
            body=draft.body,
            content_type=draft.content_type,
            attributes=dict(draft.attributes),
            attempts=item.attempts,
            sent_at=item.sent_at,
            entered_at=item.entered_at,
            due_at=item.due_at,
            discard_at=self.discard_at(item),
            delay_ms=item.delay_ms,
            retention_ms=item.retention_ms,
            group=draft.group or None,
            trace=draft.trace,
            death=item.death,
        )

    # -- remove and move --------------------------------------------------------------------------------------

    def remove(self, queue: Queue, *, seqs: Sequence[int] | None, kind: EventKind, now: int) -> list[int]:
        """Remove chosen messages, or all, whatever their state."""
        self.advance(now)
        chosen = [item for item in self.inside(queue) if seqs is None or item.seq in seqs]
        for item in chosen:
            self._note(item, kind, now)
            del self.items[item.seq]
        return [item.seq for item in chosen]

    def move(
        self, source: Queue, target: Queue | None, *, seqs: Sequence[int] | None, kind: EventKind, now: int
    ) -> int:
        """Move what is not leased to `target`, or each message to where it died; returns how many went."""
        self.advance(now)
        moved = 0
        for item in self.inside(source):
            home = target or self.queues.get(item.death.source_queue if item.death else "")
            if home is None or item.state is State.LEASED or (seqs is not None and item.seq not in seqs):
                continue
            self._note(item, kind, now)
            self._enter(item, home, now)
            moved += 1
        return moved


def _longest_ready(items: Iterable[Item]) -> list[Item]:
    return sorted((i for i in items if i.state is State.READY), key=lambda item: (item.due_at, item.seq))


def _in_groups(items: Sequence[Item], group_limit: int | None) -> Iterable[Item]:
    """Whole groups, the one whose head is longest ready first; a group with a leased message is locked."""
    groups = [sorted((i for i in items if i.group == name), key=lambda i: i.seq) for name in {i.group for i in items}]
    free = [g for g in groups if g[0].state is State.READY and all(i.state is not State.LEASED for i in g)]
    for group in sorted(free, key=lambda group: (group[0].due_at, group[0].seq)):
        yield from _ready_run(group)[:group_limit]


def _ready_run(group: Sequence[Item]) -> list[Item]:
    """The messages at the front of a group that are ready, up to the first that is not."""
    waiting = next((n for n, item in enumerate(group) if item.state is not State.READY), len(group))
    return list(group[:waiting])
