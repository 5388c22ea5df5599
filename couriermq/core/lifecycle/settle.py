"""Ack, release and extend by receipt: what the settlements of one call have in common."""

from collections.abc import Sequence

import msgspec

from couriermq.core.errors import CourierError, InvalidReceipt, LeaseLost
from couriermq.core.lifecycle.ack import ack_packed, ack_single, end_delivered
from couriermq.core.lifecycle.extend import extend, extend_pack
from couriermq.core.lifecycle.fifo import refresh_group
from couriermq.core.lifecycle.members import extract, holder
from couriermq.core.lifecycle.needs import Content, Deciding, Found, Named, Queues
from couriermq.core.lifecycle.release import may_release_late, release, release_late
from couriermq.core.lifecycle.rows import Contents, Pack, Single
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import (
    UNENDING,
    Ack,
    Extend,
    Fate,
    Json,
    Kind,
    LateAck,
    Queue,
    Release,
    Settled,
    Settlement,
    State,
)
from couriermq.core.receipts import Sealer

LEASED = int(State.LEASED)
Outcome = Settled | CourierError
Token = tuple[int, int, int]


class Order(msgspec.Struct, gc=False):
    """One call that settles."""

    settlements: Sequence[Settlement]
    now: int
    principal: str

    @property
    def is_ack(self) -> bool:
        """Whether it only acks. Such orders can be carried out together: it does not matter which is first."""
        return all(type(settlement) is Ack for settlement in self.settlements)

    @property
    def is_plain_ack(self) -> bool:
        """Whether it only acks and tells nothing with it."""
        return all(type(settlement) is Ack and settlement.note is None for settlement in self.settlements)


def settle(
    unit: Unit, queue: Queue, orders: Sequence[Order], *, queues: Queues, sealer: Sealer
) -> Deciding[list[list[Outcome]]]:
    """Each settlement by its receipt alone; one that fails leaves the others done. Several orders must only ack."""
    tokens = [sealer.read_receipts([settlement.receipt for settlement in order.settlements]) for order in orders]
    desk = Desk(unit, queue, queues)
    yield from desk.fetch([t[1] for some in tokens for t in some if t is not None and t[0] == queue.key])
    results: list[list[Outcome]] = []
    for order, own in zip(orders, tokens, strict=True):
        desk.serve(order.now, order.principal)
        outcomes = desk.ack_at_once(order, own)
        if outcomes is not None:
            results.append(outcomes)
            continue
        desk.extend_whole_packs(order.settlements, own)
        outcomes = []
        for settlement, token in zip(order.settlements, own, strict=True):
            outcomes.append((yield from desk.settle(settlement, token)))
        results.append(outcomes)
    yield from desk.flush()
    return results


class Desk:
    """Where receipts are handed in. Acks of messages of one pack are carried out together, in `flush`."""

    def __init__(self, unit: Unit, queue: Queue, queues: Queues) -> None:
        self._unit = unit
        self._queue = queue
        self._queues = queues
        self._is_fifo = queue.kind is Kind.FIFO
        self._packs: list[Pack] = []
        self._singles: dict[int, Single] = {}
        self._contents: Contents
        self._settled: set[int] = set()
        """A message settles once, even where one call names its receipt twice."""
        self._extended: dict[int, Settled] = {}
        self._acked: dict[tuple[int, int, int, str], tuple[Pack, dict[str, Json] | None, list[int]]] = {}
        """By pack, note, instant and principal: seqs whose acks are carried out together."""
        self._unlocked: dict[str, int] = {}
        self._delivered: list[int] = []

    def serve(self, now: int, principal: str) -> None:
        """What comes next is of this instant and this principal."""
        self._now = now
        self._principal = principal

    def fetch(self, seqs: Sequence[int]) -> Deciding[None]:
        if seqs:
            found: Found = yield Named(self._queue.key, seqs)
            self._packs = sorted(found.packs, key=lambda pack: pack.last)
            self._singles = {single.seq: single for single in found.singles}
            self._contents = yield Content(self._packs, bodies=False)

    def ack_at_once(self, order: Order, tokens: Sequence[Token | None]) -> list[Outcome] | None:
        """The outcomes where an order acks messages of one pack and nothing stands against it; else None."""
        if len(tokens) < 2 or None in tokens or not order.is_plain_ack:
            return None
        keys, seqs, numbers = zip(*tokens, strict=True)
        pack = holder(self._packs, seqs[0])
        if (
            pack is None or pack.state != LEASED or pack.due_at <= self._now or pack.gone
            or {*keys} != {self._queue.key} or {*numbers} != {pack.lease_no}
            or min(seqs) < pack.first or max(seqs) > pack.last
            or len({*seqs}) < len(seqs) or not self._settled.isdisjoint(seqs)
        ):  # fmt: skip
            return None
        self._settled.update(seqs)
        self._acked.setdefault((pack.last, id(None), self._now, self._principal), (pack, None, []))[2].extend(seqs)
        run, first = self._contents.run_of(pack)
        ids, offset = run.message_ids, first - pack.first
        return [Settled(seq, ids[seq + offset] or "") for seq in seqs]

    def settle(self, settlement: Settlement, token: Token | None) -> Deciding[Outcome]:
        if token is None or token[0] != self._queue.key:
            return InvalidReceipt(settlement.receipt)
        seq = token[1]
        if seq in self._extended and type(settlement) is Extend:
            return self._extended.pop(seq)
        pack, single = self._find(seq)
        row = pack or single
        if row is None or seq in self._settled:
            return LeaseLost(settlement.receipt)
        is_alive = row.state == LEASED and row.lease_no == token[2] and row.due_at > self._now
        if type(settlement) is Ack:
            if not is_alive and self._queue.settings.late_ack is LateAck.REFUSE:
                return LeaseLost(settlement.receipt)
            note = settlement.note if is_alive else {**(settlement.note or {}), "late": True}
            return self._ack(seq, pack, single, note)
        if not is_alive and not (type(settlement) is Release and may_release_late(self._queue, row)):
            return LeaseLost(settlement.receipt)
        yield from self.flush()
        if single is None:
            assert pack is not None
            single = self._singles[seq] = extract(self._unit, pack, seq - pack.first, self._contents)
        if type(settlement) is Release:
            self._settled.add(seq)
            return (yield from self._release(single, settlement, is_late=not is_alive))
        assert isinstance(settlement, Extend)
        return extend(self._unit, self._queue, single, settlement, now=self._now, principal=self._principal)

    def end_claimed(self, seqs: Sequence[int], fate: Fate, note: dict[str, Json]) -> Deciding[int]:
        """Ack or release those of the messages that a claim still holds; how many that are."""
        yield from self.fetch(seqs)
        count = 0
        for seq in seqs:
            pack, single = self._find(seq)
            row = pack or single
            if row is None or row.state != LEASED or row.due_at != UNENDING:
                continue
            count += 1
            if fate is Fate.ACKED:
                self._ack(seq, pack, single, note)
                continue
            if single is None:
                assert pack is not None
                single = extract(self._unit, pack, seq - pack.first, self._contents)
            yield from self._release(single, Release("", note=note))
        yield from self.flush()
        return count

    def extend_whole_packs(self, settlements: Sequence[Settlement], tokens: Sequence[Token | None]) -> None:
        """Where a call extends all messages of a pack alike, the pack stays one."""
        if not self._packs or type(settlements[0]) is not Extend or not all(type(s) is Extend for s in settlements):
            return
        wanted: dict[int, set[int]] = {}
        lengths: set[int] = set()
        for settlement, token in zip(settlements, tokens, strict=True):
            if token is None or token[0] != self._queue.key or not isinstance(settlement, Extend):
                continue
            pack, _ = self._find(token[1])
            lengths.add(settlement.lease_ms)
            if pack and pack.state == LEASED and pack.lease_no == token[2] and pack.due_at > self._now:
                wanted.setdefault(pack.last, set()).add(token[1])
        for pack in self._packs:
            if len(lengths) == 1 and len(wanted.get(pack.last, ())) == pack.remaining:
                self._extended |= extend_pack(
                    self._unit, self._queue, pack, self._contents, lease_ms=min(lengths), now=self._now,
                    principal=self._principal,
                )  # fmt: skip

    def flush(self) -> Deciding[None]:
        """Carry out the acks that have come in, and let go of the groups."""
        acked, self._acked = self._acked, {}
        for (_, _, now, principal), (pack, note, seqs) in acked.items():
            ack_packed(self._unit, self._queue, pack, seqs, self._contents, note=note, now=now, principal=principal)
        unlocked, self._unlocked = self._unlocked, {}
        for group, count in unlocked.items():
            yield from refresh_group(self._unit, self._queue, group, leased=-count)
        delivered, self._delivered = self._delivered, []
        if delivered:
            yield from end_delivered(self._unit, self._queues, delivered, now=self._now, principal=self._principal)

    def _find(self, seq: int) -> tuple[Pack | None, Single | None]:
        single = self._singles.get(seq)
        if single is not None:
            return None, single
        return holder(self._packs, seq), None

    def _ack(self, seq: int, pack: Pack | None, single: Single | None, note: dict[str, Json] | None) -> Settled:
        self._settled.add(seq)
        if single is None:
            assert pack is not None
            key = (pack.last, id(note), self._now, self._principal)
            self._acked.setdefault(key, (pack, note, []))[2].append(seq)
            run, first = self._contents.run_of(pack)
            return Settled(seq, run.message_ids[first + seq - pack.first] or "")
        ack_single(self._unit, self._queue, single, note=note, now=self._now, principal=self._principal)
        if single.origin is not None:
            self._delivered.append(single.origin)
        if self._is_fifo:
            group = single.group or ""
            self._unlocked[group] = self._unlocked.get(group, 0) + (single.state == LEASED)
        return Settled(seq, single.id)

    def _release(self, single: Single, order: Release, *, is_late: bool = False) -> Deciding[Settled]:
        decide = release_late if is_late else release
        return (
            yield from decide(
                self._unit, self._queue, self._queues, single, order, now=self._now, principal=self._principal
            )
        )
