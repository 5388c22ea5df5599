"""Messages on their way in: all sends of a commit are decided together, queue by queue."""

from collections.abc import Sequence
from itertools import groupby, islice

import msgspec

from couriermq.core.chronicle import Chronicle, Run
from couriermq.core.errors import CourierError, QueueNotFound
from couriermq.core.events import Event, sent_detail
from couriermq.core.lifecycle.needs import Deciding, Dedup, Exclusive, Queues
from couriermq.core.lifecycle.rows import ROW_BYTES, ROW_EVENTS, SENT, Content, Pack, Single, encode
from couriermq.core.lifecycle.tally import Tally
from couriermq.core.lifecycle.unit import JournalRow, Unit
from couriermq.core.model import DEDUP_MS, Draft, Json, Kind, Parcel, Queue, Sent, State
from couriermq.core.receipts import Sealer

FIRST_TURN = 1
Outcomes = list[Sent | CourierError]


class Order(msgspec.Struct, gc=False):
    """One call that sends; `events` are journaled with it."""

    parcels: Sequence[Parcel]
    now: int
    principal: str
    events: Sequence[Event] = ()


class _Slot(msgspec.Struct, gc=False):
    """A parcel that has a place in a queue; its outcome follows when the queue's messages get their seqs."""

    outcomes: list["_Slot | Sent | CourierError"]
    index: int
    parcel: Parcel
    order: Order
    dedup: tuple[int, str] | None = None
    origin: "_Slot | None" = None
    """The slot of the message that this one copies, where that leaves with its last copy."""
    original: "_Slot | None" = None
    """The slot of the message that this one copies: its body is stored once, for both."""
    seq: int = 0
    run: Run | None = None
    position: int = 0
    """Where its event is; a copy points to that of its original."""

    @property
    def count(self) -> int:
        return 1


class _Block(msgspec.Struct, gc=False):
    """Plain messages that are alike, of one call or of several: they are taken as columns, without a look at each."""

    now: int
    principal: str
    draft: Draft
    bodies: list[bytes]
    size: int
    shares: list[tuple[list["_Slot | Sent | CourierError"], int]]
    """The outcomes of each call, and how many of the messages are its."""
    seq: int = 0

    @property
    def count(self) -> int:
        return len(self.bodies)

    def has_room(self, order: Order, size: int) -> bool:
        """Whether the messages of an order are like those of the block, and fit into one run with them."""
        return (
            self.now == order.now and self.principal == order.principal
            and self.draft.content_type == order.parcels[0].draft.content_type
            and len(self.bodies) + len(order.parcels) <= ROW_EVENTS and self.size + size <= ROW_BYTES
        )  # fmt: skip


class _Twin(msgspec.Struct, gc=False):
    """A duplicate of a parcel of the same commit."""

    outcomes: list["_Slot | Sent | CourierError"]
    index: int
    first: _Slot


def send(unit: Unit, orders: Sequence[Order], *, queues: Queues, sealer: Sealer) -> Deciding[list[Outcomes]]:
    """Store each parcel; one for a queue that was deleted meanwhile is refused alone."""
    remembered: dict[tuple[int, str], tuple[int, int, str]] = {}
    ordered = sorted({parcel.queue.key for order in orders for parcel in order.parcels if _is_in_order(parcel)})
    if ordered:
        yield Exclusive(ordered)
    if keys := [key for order in orders for parcel in order.parcels if (key := _dedup_key(parcel)) is not None]:
        remembered = yield Dedup(keys)
    desk = _Desk(queues, remembered)
    results = [desk.place(order) for order in orders]
    told = Chronicle()
    for order in orders:
        told.extend(order.events)
    runs: list[Run] = told.runs
    intakes = []
    count = sum([entry.count for _, entries in desk.buckets.values() for entry in entries])
    yield from unit.reserve_seqs(count, in_order=bool(ordered))
    for _, entries in desk.buckets.values():
        for entry in entries:  # all of them before any row is made: a copy names the seq of its original
            entry.seq = unit.next_seq
            unit.next_seq += entry.count
    for queue, entries in desk.buckets.values():
        intake = _Intake(unit, queue, sealer)
        intake.take(entries)
        runs += intake.runs
        intakes.append(intake)
    _journal(unit, runs, intakes)
    for twin in desk.twins:
        first = twin.first.outcomes[twin.first.index]
        assert isinstance(first, Sent)
        twin.outcomes[twin.index] = Sent(first.seq, first.id, duplicate=True)
    return results  # type: ignore[return-value]  # every slot has been replaced by its outcome


def _is_in_order(parcel: Parcel) -> bool:
    """Whether the order in which parcels come into the queue matters, or whether one has come before."""
    return parcel.queue.kind is Kind.FIFO or parcel.once is not None


def _journal(unit: Unit, runs: list[Run], intakes: "list[_Intake]") -> None:
    """Write the runs into rows of the journal, and have packs and singles point there."""
    places: Places = {}
    for row in unit.journal(runs):
        position = 0
        for run in row.runs:
            if run.bodies:
                row.first_seq = run.seqs[0] if row.first_seq is None else row.first_seq
                row.last_seq = run.seqs[-1]
            places[id(run)] = (row, position)
            position += len(run)
        unit.new_contents[row.start] = Content(row.runs, sum(run.body_bytes for run in row.runs))
    for intake in intakes:
        intake.point(places)


Places = dict[int, tuple[JournalRow, int]]
"""The row that holds a run, by the run's identity, and how many events stand before the run there."""


class _Desk:
    """Finds the queue of every parcel, and the parcels that are refused or dropped."""

    def __init__(self, queues: Queues, remembered: dict[tuple[int, str], tuple[int, int, str]]) -> None:
        self.buckets: dict[int, tuple[Queue, list[_Slot | _Block]]] = {}
        self.twins: list[_Twin] = []
        self._queues = queues
        self._remembered = remembered
        self._first: dict[tuple[int, str], _Slot] = {}

    def place(self, order: Order) -> list[_Slot | Sent | CourierError]:
        outcomes: list[_Slot | Sent | CourierError] = []
        if (bodies := _plain_bodies(order)) and (bucket := self._bucket(order.parcels[0].queue)):
            _add_block(bucket[1], order, bodies, outcomes)
            return outcomes
        for index, parcel in enumerate(order.parcels):
            original = None if parcel.copy_of is None else outcomes[parcel.copy_of]
            if original is not None and not isinstance(original, _Slot):
                outcomes.append(original)  # a copy is not made of what was dropped or refused
                continue
            slot = _Slot(outcomes, index, parcel, order, original=original)
            if original is not None and not order.parcels[parcel.copy_of or 0].queue.settings.keep_delivered:
                slot.origin = original
            outcomes.append(slot)
            outcomes[index] = self._find_place(slot)
        return outcomes

    def _find_place(self, slot: _Slot) -> _Slot | Sent | CourierError:
        queue, now = slot.parcel.queue, slot.order.now
        bucket = self._bucket(queue)
        if bucket is None:
            return QueueNotFound(queue.name)
        key = slot.dedup = _dedup_key(slot.parcel)
        if key is not None:
            until, seq, id_ = self._remembered.get(key, (0, 0, ""))
            if until > now:
                return Sent(seq, id_, duplicate=True)
            if (first := self._first.get(key)) is not None:
                self.twins.append(_Twin(slot.outcomes, slot.index, first))
                return Sent(0, "", duplicate=True)  # replaced when the first has its seq
            self._first[key] = slot
        bucket[1].append(slot)
        return slot

    def _bucket(self, queue: Queue) -> tuple[Queue, list[_Slot | _Block]] | None:
        bucket = self.buckets.get(queue.key)
        if bucket is None and (live := self._queues.queue_of_key(queue.key)) is not None:
            bucket = self.buckets[queue.key] = (live, [])
        return bucket


def _plain_bodies(order: Order) -> list[bytes] | None:
    """The bodies of the order's messages, if these are alike and plain, and fit into one run."""
    parcels = order.parcels
    if not 0 < len(parcels) <= ROW_EVENTS or parcels[0].queue.kind is Kind.FIFO:
        return None
    queue, content_type = parcels[0].queue, parcels[0].draft.content_type
    bodies: list[bytes] = []
    for parcel in parcels:
        draft = parcel.draft
        if (
            parcel.queue is not queue or parcel.copy_of is not None or parcel.once is not None or draft.attributes
            or draft.id is not None or draft.delay_ms is not None or draft.retention_ms is not None
            or draft.group is not None or draft.trace is not None or draft.content_type != content_type
        ):  # fmt: skip
            return None
        bodies.append(draft.body)
    return bodies if sum(map(len, bodies)) <= ROW_BYTES else None


def _add_block(
    entries: list[_Slot | _Block], order: Order, bodies: list[bytes], outcomes: list[_Slot | Sent | CourierError]
) -> None:
    """Add plain messages to the last block, if they go on where it ends, or as a block of their own."""
    size = sum(map(len, bodies))
    share = (outcomes, len(bodies))
    last = entries[-1] if entries else None
    if type(last) is _Block and last.has_room(order, size):
        last.bodies += bodies
        last.size += size
        last.shares.append(share)
    else:
        entries.append(_Block(order.now, order.principal, order.parcels[0].draft, bodies, size, [share]))


def _dedup_key(parcel: Parcel) -> tuple[int, str] | None:
    """Under what the queue remembers a parcel, if it does; names of parcels and ids of messages never meet."""
    queue, draft = parcel.queue, parcel.draft
    if queue.kind is Kind.FIFO and queue.owner is None and (dedup_id := draft.dedup_id or draft.id) is not None:
        return queue.key, dedup_id
    return None if parcel.once is None else (-queue.key, parcel.once)


class _Intake:
    """Takes what a commit sends to one queue: seqs without gaps, runs of events, packs and singles."""

    def __init__(self, unit: Unit, queue: Queue, sealer: Sealer) -> None:
        self.runs: list[Run] = []
        self._unit = unit
        self._queue = queue
        self._sealer = sealer
        self._tally: Tally = unit.tally(queue.key)
        self._packs: list[tuple[Pack, Run]] = []
        self._singles: list[tuple[Single, Run]] = []
        self._run_bytes = 0
        self._hides = not queue.settings.archive_bodies

    def take(self, entries: Sequence[_Slot | _Block]) -> None:
        for kind, some in groupby(entries, type):
            if kind is _Slot:
                self._take_slots(list(some))  # type: ignore[arg-type]
            else:
                for block in some:
                    self._take_block(block)  # type: ignore[arg-type]

    def _take_block(self, block: _Block) -> None:
        now, queue, count = block.now, self._queue, len(block.bodies)
        seqs = range(block.seq, block.seq + count)
        ids = self._sealer.message_ids(seqs)
        delay_ms = queue.settings.delay_ms
        run = self._open_run(block.principal, block.draft, delay_ms, count, block.size, has_bodies=True)
        position = len(run)
        run.ats += [now] * count
        run.seqs += seqs
        run.message_ids += ids
        run.attempts += [0] * count
        run.sizes += map(len, block.bodies)
        run.bodies += block.bodies
        run.turns += [FIRST_TURN] * count
        run.ages += [0] * count
        state = State.DELAYED if delay_ms else State.READY
        self._tally.add(state, block.size, count)
        due_at = now + delay_ms
        pack = Pack(
            seqs[-1], queue.key, int(state), due_at, 0, 0, now, count, count, block.size, 0, position, FIRST_TURN
        )
        self._packs.append((pack, run))
        self._unit.due(self._tally, now + min(delay_ms or queue.settings.retention_ms, queue.settings.retention_ms))
        if not delay_ms:
            self._unit.made_ready(queue.key, count)
        sent = map(Sent, seqs, ids)
        for outcomes, share in block.shares:
            outcomes.extend(islice(sent, share))

    def _take_slots(self, slots: Sequence[_Slot]) -> None:
        minted = self._sealer.message_ids([slot.seq for slot in slots])
        ready, due_at, retention_ms = 0, 2**62, self._queue.settings.retention_ms
        for slot, fresh in zip(slots, minted, strict=True):
            draft, now, seq = slot.parcel.draft, slot.order.now, slot.seq
            id_ = fresh if draft.id is None else draft.id
            delay_ms = self._queue.settings.delay_ms if draft.delay_ms is None else draft.delay_ms
            if self._is_packed(draft, slot):
                run = self._note(slot, seq, id_, delay_ms, draft.body)
                self._pack(run, seq, len(draft.body), now, now + delay_ms)
            else:
                self._note(slot, seq, id_, delay_ms, None if self._is_copy(slot) else draft.body)
                due_at = min(due_at, self._add_single(slot, seq, id_, delay_ms))
            if slot.dedup is not None:
                self._unit.changes.dedups.append((*slot.dedup, now + DEDUP_MS, seq, id_))
            slot.outcomes[slot.index] = Sent(seq, id_)
            ready += not delay_ms
            due_at = min(due_at, now + min(delay_ms or retention_ms, retention_ms))
        self._unit.due(self._tally, due_at)
        if ready:
            self._unit.made_ready(self._queue.key, ready)

    def _is_packed(self, draft: Draft, slot: _Slot) -> bool:
        return (
            draft.id is None and draft.group is None and draft.retention_ms is None and slot.origin is None
            and self._queue.kind is not Kind.FIFO
        )  # fmt: skip

    def _is_copy(self, slot: _Slot) -> bool:
        """Whether the body of the original is stored already; what the journal shows of a copy has none."""
        original = slot.original
        return (
            self._hides and original is not None and original.run is not None
            and original.parcel.draft.body is slot.parcel.draft.body
        )  # fmt: skip

    def _note(self, slot: _Slot, seq: int, id_: str, delay_ms: int, body: bytes | None) -> Run:
        """Add the event to the open run, if it belongs there, or to a new one."""
        draft, order = slot.parcel.draft, slot.order
        run = self._open_run(order.principal, draft, delay_ms, 1, len(body or b""), has_bodies=body is not None)
        run.add(order.now, seq, id_, 0, len(draft.body), body, FIRST_TURN, order.now)
        slot.run, slot.position = run, len(run) - 1
        return run

    def _open_run(self, principal: str, draft: Draft, delay_ms: int, count: int, size: int, *, has_bodies: bool) -> Run:
        detail = sent_detail(draft, self._queue, delay_ms)
        private = self._private(draft)
        run = self.runs[-1] if self.runs else None
        if (
            run is None or run.detail != detail or run.principal != principal or run.private != private
            or bool(run.bodies) != has_bodies
            or len(run.ats) + count > ROW_EVENTS or self._run_bytes + size > ROW_BYTES
        ):  # fmt: skip
            queue = self._queue
            run = Run(SENT, queue.tenant, queue.id, queue.name, principal, detail, [], [], [], [], [], [], private)
            self.runs.append(run)
            self._run_bytes = 0
        self._run_bytes += size
        return run

    def _private(self, draft: Draft) -> dict[str, Json] | None:
        if not self._hides:
            return None
        return {"attributes": draft.attributes} if draft.attributes else {}

    def _pack(self, run: Run, seq: int, size: int, now: int, due_at: int) -> None:
        state = State.READY if due_at == now else State.DELAYED
        self._tally.add(state, size)
        if self._packs:
            pack, of = self._packs[-1]
            if of is run and pack.last == seq - 1 and pack.entered_at == now:
                pack.last = seq
                pack.count += 1
                pack.remaining += 1
                pack.bytes += size
                return
        pack = Pack(seq, self._queue.key, int(state), due_at, 0, 0, now, 1, 1, size, 0, len(run) - 1, FIRST_TURN)
        self._packs.append((pack, run))

    def _add_single(self, slot: _Slot, seq: int, id_: str, delay_ms: int) -> int:
        """Returns when its own retention ends, or a time far away."""
        draft, now, queue = slot.parcel.draft, slot.order.now, self._queue
        is_fifo = queue.kind is Kind.FIFO
        group = (draft.group or "") if is_fifo else draft.group
        discard_at = None if draft.retention_ms is None else now + draft.retention_ms
        state = State.DELAYED if delay_ms else State.READY
        origin = None if slot.origin is None else slot.origin.seq
        holder = slot.original if slot.original is not None and self._is_copy(slot) else slot
        assert holder.run is not None
        single = Single(
            seq, queue.key, int(state), now + delay_ms, 0, 0, now, discard_at, now, delay_ms, len(draft.body),
            int(draft.id is not None), id_, draft.content_type, encode(draft.attributes) if draft.attributes else None,
            group, draft.trace, origin, None, None, holder.position, FIRST_TURN, is_stored=False,
        )  # fmt: skip
        self._singles.append((single, holder.run))
        self._tally.add(state, single.size)
        if is_fifo:
            self._unit.changes.new_groups.append((queue.key, group or "", seq, single.due_at))
        return 2**62 if discard_at is None else discard_at

    def point(self, places: Places) -> None:
        """The runs have their rows now; a row knows up to which seq messages point to it."""
        for pack, run in self._packs:
            row, position = places[id(run)]
            pack.start, pack.position = row.start, position + pack.position
            self._unit.add_pack(pack)
        for single, run in self._singles:
            if not run.tenant:  # nobody's history: the journal does not have it
                self._unit.changes.bodies[single.seq] = run.bodies[single.position] or b""
                self._unit.put(single)
                continue
            row, position = places[id(run)]
            single.start, single.position = row.start, position + single.position
            row.last_seq = max(row.last_seq or 0, single.seq)
            self._unit.put(single)
