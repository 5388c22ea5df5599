"""One commit's worth of orders: what all of them need is asked for together, and what they change written together."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from couriermq.core.errors import QueueNotFound
from couriermq.core.model import Ack, Kind, LateAck, Queue
from couriermq.core.receipts import Sealer
from couriermq.storage.base import Parcel, RoutesChanged
from couriermq.storage.postgres import claiming, held, passing
from couriermq.storage.postgres.arrays import blobs, numbers
from couriermq.storage.postgres.circle import Circle
from couriermq.storage.postgres.ending import end_delivered
from couriermq.storage.postgres.link import Rows, Step
from couriermq.storage.postgres.orders import Order, Pass, Receive, Send, Settle
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.rows import Row
from couriermq.storage.postgres.sending import Intake, Memory, dedup_key
from couriermq.storage.postgres.settling import Desk, Token
from couriermq.storage.postgres.transaction import Transaction


class Again:
    """The answer to an order whose queue has more time to catch up with than one transaction can: ask once more."""


AGAIN = Again()


class Overtaken(Exception):
    """An ack went the shortest way, and then it turned out that it has to wait."""


class Batch:
    """Runs orders in one transaction; `run` leaves all to be committed and gives an outcome an order."""

    def __init__(
        self, tx: Transaction, orders: Sequence[Order], circle: Circle, sealer: Sealer, *, short_acks: bool
    ) -> None:
        self._tx = tx
        self._orders = orders
        self._sealer = sealer
        self._circle = circle
        self._directory = circle.directory
        self._seqs = circle.seqs
        self._lease_nos = circle.lease_nos
        self._agenda = circle.agenda
        self._catalog_version = circle.catalog_version
        self._short_acks = short_acks
        self._outcomes: list[Any] = [None] * len(orders)
        self._queues = self._reached()
        self._late: dict[int, tuple[Queue, int]] = {}
        """Those of them that time may have changed."""
        self._rows: dict[int, Row] = {}
        self._plain: list[tuple[Queue, int, Token]] = []
        self._named: set[int] = set()
        self._held: list[Token] = []
        self._held_whole = False
        self._memory: Memory = {}
        self._own_seqs: list[int] = []
        self._unfinished: set[int] = set()
        self._limits: dict[int, int] = {}
        self._early: claiming.Claimed = {}

    async def run(self) -> list[Any]:
        await self._prepare()
        await self._settle()
        self._early = {key: rows for key, rows in self._early.items() if key not in self._tx.ready}
        self._send()
        await self._receive()
        await self._tell_dues()
        return self._outcomes

    def _reached(self) -> dict[int, tuple[Queue, int]]:
        """The queues that something is taken from or settled in, each with the latest now that anybody named."""
        reached: dict[int, tuple[Queue, int]] = {}
        for order in self._orders:
            if isinstance(order, Send):
                continue
            for key in order.keys if isinstance(order, Pass) else (order.queue.key,):
                queue = self._directory.queue_of_key(key)
                if queue is not None:
                    reached[key] = queue, max(order.now, reached[key][1] if key in reached else 0)
        return reached

    # -- the first round trip ---------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        fifo_keys = self._fifo_keys()
        self._tx.open(catalog_version=self._catalog_version, fifo_keys=fifo_keys)
        asked: dict[str, Step] = {}
        whole = {key for order in self._orders if isinstance(order, Pass) for key in order.keys}
        self._late = {
            key: (queue, now)
            for key, (queue, now) in self._queues.items()
            if key in whole or self._circle.is_late(key, now)
        }
        if self._late:
            since = {key: 0 if key in whole else self._since(key) for key in self._late}
            asked["hands"], asked["due"], asked["aged"] = passing.look(self._late, since)
        self._sort_tokens()
        if self._held:
            places = {(key, lease_no) for key, _, lease_no in self._held}
            asked["held"] = held.named(places, whole=self._held_whole)
        if self._plain:
            asked["acks"] = Q.ack, self._plain_acks()
        if self._named:
            asked["named"] = Q.named, {"seqs": numbers(self._named)}
        if count := self._seqs_wanted(in_order=bool(fifo_keys)):
            asked["seqs"] = Q.next_seqs, {"count": self._seqs.ahead(count)}
        if keys := self._dedup_keys():
            asked["dedup"] = Q.read_dedup, {"keys": numbers(k for k, _ in keys), "ids": blobs(i for _, i in keys)}
        if limits := claiming.wanted(self._receives()):
            asked["rows"], asked["bundles"] = claiming.look(self._tx, limits)
            self._limits = limits
        if asked:
            self._take_in(dict(zip(asked, await self._tx.ask(*asked.values()), strict=True)))

    def _take_in(self, answers: dict[str, Rows]) -> None:
        tx, hands, due, aged = self._tx, *(answers.get(name, []) for name in ("hands", "due", "aged"))
        self._rows = {row.seq: row for row in tx.open_hands(answers.get("held", []))}
        self._rows.update((row.seq, row) for row in tx.adopt(answers.get("named", [])))
        self._rows.update((row.seq, row) for row in tx.adopt_acked(answers.get("acks", [])))
        self._unfinished = passing.apply_time(tx, due, hands, aged, self._late, self._directory)
        for (seqs,) in answers.get("seqs", []):
            count = self._parcel_count() - len(self._own_seqs)
            self._own_seqs += seqs[:count]
            self._seqs.given(seqs[:count])
            self._seqs.add(seqs[count:])
        for key, dedup_id, until_at, seq, message_id in answers.get("dedup", []):
            self._memory[key, dedup_id] = until_at, seq, message_id
        if self._limits:
            changed = {facts[2] for facts in due} | {facts[0] for facts in (*hands, *aged)}
            claimed = claiming.sort_out(tx, self._limits, answers["rows"], answers["bundles"])
            self._early = {key: rows for key, rows in claimed.items() if key not in changed}

    def _since(self, key: int) -> int:
        """From where to look: where time was last let pass, or where something is known to wait that came late."""
        mark, at = self._tx.marks.due(key), self._agenda.at(key)
        return mark if at is None else min(mark, at)

    def _receives(self) -> list[tuple[Queue, Receive]]:
        return [
            (self._queues[order.queue.key][0], order)
            for order in self._orders
            if isinstance(order, Receive) and order.queue.key in self._queues
        ]

    def _seqs_wanted(self, *, in_order: bool) -> int:
        """How many are to be fetched; where order counts, all of them, now that the queue is locked."""
        count = self._parcel_count()
        if in_order:
            self._seqs.clear()
        elif count:
            self._own_seqs = self._seqs.take(count)
        return count - len(self._own_seqs)

    def _parcel_count(self) -> int:
        return sum(order.weight for order in self._orders if isinstance(order, Send))

    def _sort_tokens(self) -> None:
        """Receipts by how their messages are found: removed at once, by rows of their own, or among those that they
        were leased with, at least at first."""
        for order in self._orders:
            if not isinstance(order, Settle) or order.queue.key not in self._queues:
                continue
            queue, now = self._queues[order.queue.key]
            can_be_plain = self._short_acks and queue.kind is Kind.STANDARD
            for settlement, token in zip(order.settlements, order.tokens, strict=True):
                if token is None or token[0] != queue.key:
                    continue
                is_ack = type(settlement) is Ack
                if token[2] >= held.FIRST_NO:
                    self._held.append(token)
                    self._held_whole = self._held_whole or not is_ack
                elif can_be_plain and is_ack:
                    self._plain.append((queue, now, token))
                else:
                    self._named.add(token[1])

    def _plain_acks(self) -> dict[str, str]:
        return {
            "seqs": numbers(token[1] for _, _, token in self._plain),
            "keys": numbers(token[0] for _, _, token in self._plain),
            "lease_nos": numbers(token[2] for _, _, token in self._plain),
            "nows": numbers(now for _, now, _ in self._plain),
            "untils": numbers(passing.until(queue, now) for queue, now, _ in self._plain),
        }

    def _special_parcels(self) -> Iterator[Parcel]:
        """Those that may be for a FIFO queue, or that may have come before."""
        chosen = (order.parcels for order in self._orders if isinstance(order, Send) and not order.plain)
        return itertools.chain.from_iterable(chosen)

    def _dedup_keys(self) -> set[tuple[int, bytes]]:
        chosen = [
            parcel
            for parcel in self._special_parcels()
            if parcel.once is not None or parcel.queue.kind is not Kind.STANDARD
        ]
        return {key for parcel in chosen if (key := dedup_key(parcel.queue, parcel.draft, parcel.once))}

    def _fifo_keys(self) -> set[int]:
        keys = {parcel.queue.key for parcel in self._special_parcels()}
        sent = {key for key in keys if (queue := self._directory.queue_of_key(key)) and queue.kind is Kind.FIFO}
        return sent | passing.fifo_keys((queue for queue, _ in self._queues.values()), self._directory)

    # -- orders -----------------------------------------------------------------------------------------------

    def _live(self, index: int, named: Queue) -> Queue | None:
        """The queue as it is now; where it cannot be used, the order has its answer."""
        if named.key not in self._queues:
            self._outcomes[index] = QueueNotFound(named.name)
            return None
        if named.key in self._unfinished:
            self._outcomes[index] = AGAIN
            return None
        return self._queues[named.key][0]

    async def _settle(self) -> None:
        await self._find_late()
        await self._find_parted()
        for index, order in enumerate(self._orders):
            if not isinstance(order, Settle) or (queue := self._live(index, order.queue)) is None:
                continue
            desk = Desk(self._tx, queue, self._rows, self._directory, order.now, order.principal)
            self._outcomes[index] = desk.settle(order.settlements, order.tokens)
            if self._tx.delivered:
                await end_delivered(self._tx, self._directory, at=order.now, principal=order.principal)
        if self._tx.overtaken:
            raise Overtaken

    async def _find_late(self) -> None:
        """Messages whose ack did not go the shortest way, where it may still count."""
        late = {
            token[1]
            for queue, _, token in self._plain
            if token[1] not in self._rows and queue.settings.late_ack is not LateAck.REFUSE
        }
        if late:
            self._rows.update((row.seq, row) for row in await self._tx.load_named(late))

    async def _find_parted(self) -> None:
        """Messages that were leased with others and have a row of their own by now."""
        parted = {seq for _, seq, _ in self._held if seq not in self._rows}
        if parted:
            self._rows.update((row.seq, row) for row in await self._tx.load_named(parted))

    def _send(self) -> None:
        seqs = iter(self._own_seqs)
        sends = [(index, order) for index, order in enumerate(self._orders) if isinstance(order, Send)]
        for _, alike in itertools.groupby(sends, key=_likeness):
            run = list(alike)
            first = run[0][1]
            if first.catalog_version != self._catalog_version:
                for index, _ in run:
                    self._outcomes[index] = RoutesChanged()
                continue
            self._tx.events.extend(first.events)
            intake = Intake(
                self._tx, self._directory, self._sealer, seqs=seqs, memory=self._memory, now=first.now,
                principal=first.principal,
            )  # fmt: skip
            taken = iter(intake.take_all([parcel for _, order in run for parcel in order.parcels], plain=first.plain))
            for index, order in run:
                self._outcomes[index] = list(itertools.islice(taken, order.weight))

    async def _receive(self) -> None:
        chosen: list[tuple[int, tuple[Queue, Receive]]] = []
        for index, order in enumerate(self._orders):
            if isinstance(order, Receive) and (queue := self._live(index, order.queue)) is not None:
                chosen.append((index, (queue, order)))
        if chosen:
            parts = await claiming.receive(
                self._tx, [one for _, one in chosen], self._sealer, self._early, self._lease_nos
            )
            for (index, _), leases in zip(chosen, parts, strict=True):
                self._outcomes[index] = AGAIN if leases is None else leases

    async def _tell_dues(self) -> None:
        keys = {key for order in self._orders if isinstance(order, Pass) for key in order.keys}
        queues = [self._queues[key][0] for key in keys if key in self._queues and key not in self._unfinished]
        dues = await passing.next_dues(self._tx, queues) if queues else {}
        dues.update(dict.fromkeys(self._unfinished & keys, 0))
        for index, order in enumerate(self._orders):
            if isinstance(order, Pass):
                self._outcomes[index] = {key: dues[key] for key in order.keys if key in dues}


def _likeness(numbered: tuple[int, Send]) -> tuple[object, ...]:
    """What sends share that are taken at a stroke, as if one call had brought them; any other is like itself alone."""
    index, order = numbered
    if not order.plain or order.events:
        return (index,)
    return order.parcels[0].queue.key, order.now, order.principal, order.catalog_version
