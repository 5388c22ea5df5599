"""The usual life of messages by a shorter way: leased out of bundles, and acked all together as they were leased.

Most batches ask for nothing else. For them no message need be looked at: bundles are cut into what each receiver gets,
facts and contents as they are stored, and what was leased together leaves as a whole. Two round trips do it: one takes
(`take` in the schema), the other puts and commits. What cannot be done so goes the longer way (`batch`): messages that
were leased together and are settled one by one, leases that have ended, queues with messages that stand for themselves.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import msgspec

from couriermq.core.chronicle import join_runs, pack_run
from couriermq.core.events import EventKind
from couriermq.core.limits import COMMIT_BYTES, RESPONSE_BYTES, Room
from couriermq.core.model import Ack, Kind, Lease, Message, Queue, Settled, State
from couriermq.core.receipts import Sealer
from couriermq.core.shards import OUTBOX
from couriermq.storage.postgres import bundles, held, passing, strips, writing
from couriermq.storage.postgres.arrays import blobs, numbers
from couriermq.storage.postgres.circle import Circle
from couriermq.storage.postgres.link import Connection, Rows, Step
from couriermq.storage.postgres.marks import Look
from couriermq.storage.postgres.news import News
from couriermq.storage.postgres.orders import Order, Receive, Settle
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.rows import Content
from couriermq.storage.postgres.supply import Cut, Supply
from couriermq.storage.postgres.transaction import Change, ask_known

_ACKED, _BUNDLE, _SPOILT, _CUT = range(4)
"""Kinds of rows that `take` answers with."""

_contents = msgspec.msgpack.Decoder(list[Content]).decode


class Handful(NamedTuple):
    """An ack of all that was leased under one number, for the order at `where`."""

    where: int
    queue: Queue
    lease_no: int
    seqs: list[int]
    now: int
    principal: str


class Note(NamedTuple):
    """The same has happened to so many messages, whose facts these are."""

    message_count: int
    ats: bytes
    seqs: bytes
    ids: bytes
    sizes: bytes


class Taken(NamedTuple):
    """Messages that are leased under one number."""

    queue: Queue
    cut: Cut
    lease_no: int
    due_at: int


class Express(News):
    """One batch on its way."""

    def __init__(self, circle: Circle, sealer: Sealer, orders: Sequence[Order]) -> None:
        super().__init__()
        self._circle = circle
        self._sealer = sealer
        self._orders = orders
        self._queues: dict[int, tuple[Queue, int]] = {}
        """The queues that it is about, each with the latest now that anybody named."""
        self._acks: list[Handful] = []
        self._receives: list[tuple[int, Receive]] = []
        self._wanted: dict[int, int] = {}
        self._looks: dict[int, Look] = {}
        self._supplies: dict[int, Supply] = {}
        self._acked: list[list[tuple[list[int], bytes]]] = [[] for _ in orders]
        """By order, the seqs and the ids of what was acked."""
        self._taken: list[list[Taken] | None] = [[] for _ in orders]
        """By order, what was received; None where that is for the longer way to find out."""
        self._hands: list[held.Packed] = []
        self._notes: dict[tuple[EventKind, int, str], list[Note]] = {}
        """By kind, queue and principal, what has happened."""
        self._at = 0
        self._changes: dict[int, Change] = {}
        self._counts: Counter[str] = Counter()

    @classmethod
    def of(cls, orders: Sequence[Order], circle: Circle, sealer: Sealer) -> Self | None:
        """These orders by the shorter way, if all of them seem to be fit for it."""
        express = cls(circle, sealer, orders)
        if not all(express._takes(where, order) for where, order in enumerate(orders)):
            return None
        if any(circle.is_late(key, now) for key, (_, now) in express._queues.items()):
            return None
        express._acks.sort(key=lambda ack: (ack.queue.key, ack.lease_no))  # all nodes lock in this order
        return express

    def counts(self) -> Mapping[str, int]:
        return self._counts

    @property
    def reached(self) -> set[int]:
        return set(self._queues)

    # -- what is asked for ------------------------------------------------------------------------------------

    def _takes(self, where: int, order: Order) -> bool:
        """Add an order, if it is a usual one."""
        if type(order) is Receive:
            queue = self._live(order)
            if queue is None or self._circle.marks.is_spoilt(queue.key):
                return False
            self._receives.append((where, order))
            self._wanted[queue.key] = self._wanted.get(queue.key, 0) + order.limit
            return True
        return type(order) is Settle and self._takes_acks(where, order)

    def _takes_acks(self, where: int, order: Settle) -> bool:
        queue = self._live(order)
        if queue is None or not all(type(one) is Ack and one.note is None for one in order.settlements):
            return False
        seqs: dict[int, list[int]] = {}
        for token in order.tokens:
            if token is None or token[0] != queue.key or token[2] < held.FIRST_NO:
                return False
            seqs.setdefault(token[2], []).append(token[1])
        for lease_no, named in seqs.items():
            if len(named) != held.count_of(lease_no):
                return False
            self._acks.append(Handful(where, queue, lease_no, sorted(named), order.now, order.principal))
        return True

    def _live(self, order: Receive | Settle) -> Queue | None:
        queue = self._circle.directory.queue_of_key(order.queue.key)
        if queue is None or queue.kind is not Kind.STANDARD or queue.key >= OUTBOX:
            return None
        _, now = self._queues.get(queue.key, (queue, 0))
        self._queues[queue.key] = queue, max(order.now, now)
        return queue

    def _look(self) -> Step:
        acks, circle = self._acks, self._circle
        self._looks = {key: circle.marks.claim(key) for key in self._wanted}
        return Q.take, {
            "space": circle.space,
            "version": circle.catalog_version,
            "ack_keys": numbers(ack.queue.key for ack in acks),
            "ack_nos": numbers(ack.lease_no for ack in acks),
            "ack_seqs": blobs(strips.longs(ack.seqs) for ack in acks),
            "ack_ats": numbers(ack.now for ack in acks),
            "ack_untils": numbers(passing.until(ack.queue, ack.now) for ack in acks),
            "keys": numbers(self._wanted),
            "most": numbers(self._wanted.values()),
            "most_bytes": bundles.MOST_BYTES,
            "ready_since": numbers(look.ready for look in self._looks.values()),
            "bundle_since": numbers(look.bundle for look in self._looks.values()),
            "budget": min(COMMIT_BYTES, len(self._receives) * RESPONSE_BYTES),
        }

    # -- what is done -----------------------------------------------------------------------------------------

    async def run(self, connection: Connection) -> list[Any]:
        """Carry it out. An outcome for each order, or for each settlement of it; None where the longer way is left."""
        _, found = await ask_known(connection, [("BEGIN", {}), self._look()])
        self._take_in(found)
        for where, order in self._receives:
            self._receive(where, order)
        left = [rest for supply in self._supplies.values() for rest in supply.rests()]
        for rest in left:  # somebody may have passed over what was locked
            self.left[rest.queue] = self.left.get(rest.queue, 0) + rest.message_count
            self.oldest.setdefault(rest.queue, rest.entered_at)
        outcomes: list[Any] = []
        await ask_known(
            connection, [*self._writes(left), ("COMMIT", {})], meanwhile=lambda: outcomes.extend(self._outcomes())
        )
        return outcomes

    def _take_in(self, found: Rows) -> None:
        marks, keys = self._circle.marks, list(self._wanted)
        self._supplies = {key: Supply(key) for key in keys}
        for kind, place, count, size, seqs, ids, ats, sizes, contents in found:
            if kind == _ACKED:
                self._ack(self._acks[place - 1], count, size, seqs, ids, sizes)
            elif kind == _BUNDLE:
                self._supplies[keys[place - 1]].add(count, seqs, ids, ats, sizes, contents)
            else:
                self._supplies[keys[place - 1]].is_spoilt = True
                if kind == _SPOILT:
                    marks.spoil(keys[place - 1])
        for key, supply in self._supplies.items():
            marks.claimed(key, self._looks[key], ready=None, bundle=supply.oldest)

    def _ack(self, ack: Handful, count: int, size: int, seqs: bytes, ids: bytes, sizes: bytes) -> None:
        self._acked[ack.where].append((ack.seqs, ids))
        change = self._change(ack.queue.key)
        change.counts[State.LEASED] -= count
        change.bytes -= size
        change.acked += count
        self._note(EventKind.ACKED, ack.queue, ack.principal, ack.now, count, seqs, ids, sizes)

    def _receive(self, where: int, order: Receive) -> None:
        queue, _ = self._queues[order.queue.key]
        supply, wanted, due_at = self._supplies[queue.key], order.limit, order.now + order.lease_ms
        taken: list[Taken] = []
        room = Room()
        while wanted and (cut := supply.take(min(wanted, bundles.MOST_MESSAGES), room)) is not None:
            wanted -= cut.message_count
            lease_no = held.number_of(next(self._circle.lease_nos), cut.message_count)
            self._hands.append(cut.held(queue.key, lease_no, due_at))
            self._note(
                EventKind.RECEIVED, queue, order.principal, order.now, cut.message_count, cut.seqs, cut.ids, cut.sizes
            )
            taken.append(Taken(queue, cut, lease_no, due_at))
        if taken:
            change, count = self._change(queue.key), order.limit - wanted
            change.counts[State.READY] -= count
            change.counts[State.LEASED] += count
            self.due(queue.key, due_at)
            if wanted and (supply.is_spoilt or not supply.is_empty):
                self.ready[queue.key] = self.ready.get(queue.key, 0) + 1
        self._taken[where] = None if not taken and (supply.is_spoilt or not supply.is_empty) else taken

    def _leases_of(self, queue: Queue, cut: Cut, lease_no: int, due_at: int) -> list[Lease]:
        seqs, retention_ms = strips.read_longs(cut.seqs), queue.settings.retention_ms
        receipts = self._sealer.receipts([(queue.key, seq, lease_no) for seq in seqs])
        said = _contents(strips.array(cut.message_count, cut.contents))
        return [
            Lease(
                Message(
                    seq=seq, id=id_, state=State.LEASED, body=content.body, content_type=content.content_type,
                    attributes=content.attributes, attempts=1, sent_at=content.sent_at, entered_at=entered_at,
                    due_at=due_at, discard_at=entered_at + retention_ms, delay_ms=content.delay_ms,
                    trace=content.trace,
                ),
                receipt,
                due_at,
            )
            for seq, id_, entered_at, receipt, content in zip(
                seqs, strips.read_ids(cut.ids), strips.read_longs(cut.ats), receipts, said, strict=True
            )
        ]  # fmt: skip

    def _change(self, key: int) -> Change:
        return self._changes.setdefault(key, Change())

    def _note(
        self,
        kind: EventKind,
        queue: Queue,
        principal: str,
        at: int,
        count: int,
        seqs: bytes,
        ids: bytes,
        sizes: bytes,
    ) -> None:
        note = Note(count, count * strips.long(at), seqs, ids, sizes)
        self._notes.setdefault((kind, queue.key, principal), []).append(note)
        self._counts[kind] += count
        self._at = at

    def _run(self, kind: EventKind, key: int, principal: str, notes: Sequence[Note]) -> bytes:
        counts, ats, seqs, ids, sizes = zip(*notes, strict=True)
        queue, _ = self._queues[key]
        return pack_run(
            kind, queue, principal, sum(counts),
            ats=b"".join(ats), seqs=b"".join(seqs), ids=b"".join(ids), sizes=b"".join(sizes),
        )  # fmt: skip

    def _writes(self, left: Sequence[bundles.Packed]) -> list[Step]:
        steps: list[Step] = []
        if left:
            steps.append(bundles.insert_packed(left))
        if self._hands:
            steps.append(held.insert_packed(self._hands))
        if self._notes:
            figures = [(key, *change.figures) for key, change in self._changes.items()]
            events = {
                "counts": numbers([self._counts.total()]),
                "ats": numbers([self._at]),
                "events": blobs([join_runs([self._run(*about, notes) for about, notes in self._notes.items()])]),
            }
            steps.append((Q.seal, {"space": self._circle.space, **writing.columns(writing.FIGURES, figures), **events}))
        if left and (told := self._circle.notice(self)) is not None:
            steps.append(told)
        return steps

    def _outcomes(self) -> Iterator[Any]:
        """What to tell each, once it is durable."""
        for order, acked, taken in zip(self._orders, self._acked, self._taken, strict=True):
            if type(order) is Settle:
                ids = {seq: id_ for seqs, strip in acked for seq, id_ in zip(seqs, strips.read_ids(strip), strict=True)}
                seqs = [token[1] for token in order.tokens if token is not None]
                yield [Settled(seq, ids[seq]) if seq in ids else None for seq in seqs]
            else:
                yield None if taken is None else [lease for one in taken for lease in self._leases_of(*one)]
