"""Leasing what is ready: the receivers of one commit are served one after the other, and share rows."""

from collections.abc import Sequence

import msgspec

from couriermq.core.events import EventKind
from couriermq.core.lifecycle.fifo import take_groups
from couriermq.core.lifecycle.in_flight import leasable
from couriermq.core.lifecycle.lease import Stretch, in_line, lease_packed, lease_single, portions
from couriermq.core.lifecycle.needs import Content, Deciding, Found, Ready
from couriermq.core.lifecycle.rows import Contents, Single, message_of, messages_of, weight_of_attributes
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import COMMIT_BYTES, Room
from couriermq.core.model import Kind, Lease, Message, Queue, State
from couriermq.core.receipts import Sealer

RECEIVED = EventKind.RECEIVED.value


class Order(msgspec.Struct, gc=False):
    """One call that receives; `group_limit` is for FIFO queues."""

    limit: int
    lease_ms: int
    now: int
    principal: str
    group_limit: int | None = None


def receive(
    unit: Unit, queue: Queue, orders: Sequence[Order], *, sealer: Sealer, now: int
) -> Deciding[list[list[Lease] | None]]:
    """Lease what is ready, for each order up to its limit and to what fits into a response.

    All of them together get no more than COMMIT_BYTES: those that find no room have None and are to ask again. Nor do
    they get more than the queue's `max_leased` leaves: the first to ask get that, the others nothing.
    """
    receivers = [_Receiver(order, now + order.lease_ms) for order in orders]
    if unit.tally(queue.key).may_have(State.READY):
        limit = yield from leasable(unit, queue, sum(order.limit for order in orders))
        if queue.kind is Kind.FIFO:
            for receiver in receivers:
                limit -= yield from _serve_groups(unit, queue, receiver, limit, now)
        elif limit:
            found: Found = yield Ready(queue.key, limit)
            yield from _serve(unit, queue, in_line(found, limit), receivers, now)
    return [receiver.leases(queue, sealer) for receiver in receivers]


class _Receiver:
    """One order, and the messages that it has got so far."""

    __slots__ = ("expires_at", "is_refused", "messages", "numbers", "order", "room", "wanted")

    def __init__(self, order: Order, expires_at: int) -> None:
        self.order = order
        self.expires_at = expires_at
        self.wanted = order.limit
        self.room = Room()
        self.messages: list[Message] = []
        self.numbers: list[int] = []
        self.is_refused = False
        """The commit had no room for it."""

    def take(self, unit: Unit, sizes: Sequence[int]) -> int:
        """How many of the messages of these sizes it takes; it wants no more after one that does not fit."""
        sizes = sizes[: self.wanted]
        whole = sum(sizes)
        if self.room.has(whole):
            self.room.takes(whole)
            unit.taken_bytes += whole
            self.wanted -= len(sizes)
            return len(sizes)
        for count, size in enumerate(sizes):
            if not self.room.takes(size):
                self.wanted = 0
                return count
            unit.taken_bytes += size
            self.wanted -= 1
        return len(sizes)

    def leases(self, queue: Queue, sealer: Sealer) -> list[Lease] | None:
        if self.is_refused:
            return None
        if not self.messages:
            return []
        numbers = zip(self.messages, self.numbers, strict=True)
        receipts = sealer.receipts([(queue.key, message.seq, number) for message, number in numbers])
        expires_at = self.expires_at
        return [Lease(message, receipt, expires_at) for message, receipt in zip(self.messages, receipts, strict=True)]


Share = tuple[_Receiver, int]
"""How many messages of a stretch a receiver gets."""


def _serve(
    unit: Unit, queue: Queue, stretches: Sequence[Stretch], receivers: Sequence[_Receiver], now: int
) -> Deciding[None]:
    waiting = [receiver for receiver in reversed(receivers) if receiver.wanted]
    numbers = _Numbers(unit)
    for some in portions(stretches):
        packs = [stretch.pack for stretch in some if stretch.pack is not None]
        singles = [stretch.single for stretch in some if stretch.single is not None]
        contents: Contents = yield Content(packs, singles)
        for stretch in some:
            shares = _share_out(unit, queue, _sizes(stretch, contents), waiting)
            _lease(unit, queue, stretch, shares, contents, numbers, now)
        if not waiting:
            return


def _share_out(unit: Unit, queue: Queue, sizes: Sequence[int], waiting: list[_Receiver]) -> list[Share]:
    """Give the messages of a stretch to those who wait, of whom the next stands last."""
    shares: list[Share] = []
    start = 0
    while start < len(sizes) and waiting:
        receiver = waiting[-1]
        if unit.taken_bytes >= COMMIT_BYTES and receiver.wanted == receiver.order.limit:
            receiver.is_refused = True
            waiting.pop()
            continue
        count = receiver.take(unit, sizes[start:])
        if count:
            shares.append((receiver, count))
            start += count
        if not receiver.wanted:
            waiting.pop()
            if start < len(sizes) and count < len(sizes):
                unit.made_ready(queue.key)  # others hear that the rest is still to be had
    return shares


def _sizes(stretch: Stretch, contents: Contents) -> list[int]:
    """What each message of a stretch counts for in a response."""
    if stretch.single is not None:
        return [stretch.single.weight]
    assert stretch.pack is not None
    run, first = contents.run_of(stretch.pack)
    extra = weight_of_attributes(run)
    indexes = stretch.pack.indexes()[: stretch.count]
    return [(run.sizes[first + index] or 0) + extra for index in indexes]


class _Numbers:
    """One lease number for all leases of a commit that end at the same instant."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._known: dict[int, int] = {}

    def of(self, expires_at: int) -> int:
        number = self._known.get(expires_at)
        if number is None:
            number = self._known[expires_at] = self._unit.take_lease_no()
        return number


def _lease(
    unit: Unit,
    queue: Queue,
    stretch: Stretch,
    shares: Sequence[Share],
    contents: Contents,
    numbers: _Numbers,
    now: int,
) -> None:
    start = 0
    while start < len(shares):
        expires_at = shares[start][0].expires_at
        stop = next((i for i in range(start, len(shares)) if shares[i][0].expires_at != expires_at), len(shares))
        alike = shares[start:stop]
        if stretch.single is not None:
            _hand_over_single(unit, queue, stretch.single, alike[0][0], contents, numbers.of(expires_at), now)
        else:
            _hand_over(unit, queue, stretch, alike, contents, numbers.of(expires_at), now)
        start = stop


def _hand_over(
    unit: Unit, queue: Queue, stretch: Stretch, shares: Sequence[Share], contents: Contents, number: int, now: int
) -> None:
    """Lease the next messages of a pack to receivers whose leases end at the same instant."""
    assert stretch.pack is not None
    total = sum(count for _, count in shares)
    expires_at = shares[0][0].expires_at
    pack = lease_packed(unit, queue, stretch.pack, total, contents, lease_no=number, expires_at=expires_at)
    pack.turn += 1
    run, first = contents.run_of(pack)
    indexes, start = pack.indexes(), 0
    for receiver, count in shares:
        own = indexes[start : start + count]
        messages = list(messages_of(pack, own, queue, contents))
        receiver.messages += messages
        receiver.numbers += [number] * count
        sizes = [run.sizes[first + index] or 0 for index in own]
        unit.events.note_all(
            RECEIVED, now, queue, [message.seq for message in messages], [message.id for message in messages],
            [pack.attempts] * count, sizes, receiver.order.principal, turn=pack.turn, sent_at=pack.entered_at,
        )  # fmt: skip
        start += count


def _hand_over_single(
    unit: Unit, queue: Queue, single: Single, receiver: _Receiver, contents: Contents, number: int, now: int
) -> None:
    lease_single(unit, queue, single, lease_no=number, expires_at=receiver.expires_at)
    unit.note(RECEIVED, now, queue, single, receiver.order.principal)
    receiver.messages.append(message_of(single, queue, contents.body_of(single)))
    receiver.numbers.append(number)


def _serve_groups(unit: Unit, queue: Queue, receiver: _Receiver, limit: int, now: int) -> Deciding[int]:
    """Lease to a receiver, at most `limit`; how many messages it has got."""
    if not limit:
        return 0
    if unit.taken_bytes >= COMMIT_BYTES:
        receiver.is_refused = True
        return 0
    limit = min(limit, receiver.order.limit)
    group_limit = receiver.order.group_limit or limit
    singles: list[Single] = yield from take_groups(
        unit, queue, limit=limit, group_limit=group_limit, now=now, room=receiver.room
    )
    if not singles:
        return 0
    contents: Contents = yield Content((), singles)
    number = unit.take_lease_no()
    for single in singles:
        _hand_over_single(unit, queue, single, receiver, contents, number, now)
    return len(singles)
