"""One commit's worth of orders: what all of them need is asked for together, and what they change written together."""

from collections.abc import Sequence
from typing import Any

from courier.core.errors import QueueNotFound
from courier.core.model import Kind, Queue
from courier.core.receipts import Sealer
from courier.storage.base import Directory, RoutesChanged
from courier.storage.postgres import claiming, passing
from courier.storage.postgres.arrays import blobs, numbers
from courier.storage.postgres.ending import end_delivered
from courier.storage.postgres.link import Rows, Step
from courier.storage.postgres.orders import Order, Pass, Receive, Send, Settle
from courier.storage.postgres.queries import Q
from courier.storage.postgres.rows import Row
from courier.storage.postgres.sending import Intake, Memory, dedup_key
from courier.storage.postgres.settling import Desk
from courier.storage.postgres.transaction import Transaction


class Again:
    """The answer to an order whose queue has more time to catch up with than one transaction can: ask once more."""


AGAIN = Again()


class Batch:
    """Runs orders in one transaction; `run` leaves all to be committed and gives an outcome an order."""

    def __init__(self, tx: Transaction, orders: Sequence[Order], directory: Directory, sealer: Sealer) -> None:
        self._tx = tx
        self._orders = orders
        self._directory = directory
        self._sealer = sealer
        self._outcomes: list[Any] = [None] * len(orders)
        self._queues = self._reached()
        self._rows: dict[int, Row] = {}
        self._memory: Memory = {}
        self._seqs: list[int] = []
        self._unfinished: set[int] = set()

    async def run(self, catalog_version: int) -> list[Any]:
        self._catalog_version = catalog_version
        await self._prepare(catalog_version)
        await self._settle()
        self._send()
        await self._receive()
        await self._tell_dues()
        return self._outcomes

    def _reached(self) -> dict[int, tuple[Queue, int]]:
        """The queues that time must be applied to first, each with the latest now that anybody named."""
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

    async def _prepare(self, catalog_version: int) -> None:
        asked: dict[str, Step] = {}
        if self._queues:
            asked["due"] = passing.look(self._queues)
        if seqs := self._named_seqs():
            asked["named"] = Q.named, {"seqs": numbers(seqs)}
        if count := sum(order.weight for order in self._orders if isinstance(order, Send)):
            asked["seqs"] = Q.next_seqs, {"count": count}
        if keys := self._dedup_keys():
            asked["dedup"] = Q.read_dedup, {"keys": numbers(k for k, _ in keys), "ids": blobs(i for _, i in keys)}
        answers = await self._tx.begin(
            catalog_version=catalog_version, fifo_keys=self._fifo_keys(), steps=list(asked.values())
        )
        self._take_in(dict(zip(asked, answers, strict=True)))

    def _take_in(self, answers: dict[str, Rows]) -> None:
        self._rows = {row.seq: row for row in self._tx.adopt(answers.get("named", []))}
        self._unfinished = passing.apply_time(self._tx, answers.get("due", []), self._queues, self._directory)
        self._seqs = [seq for (seq,) in answers.get("seqs", [])]
        for key, dedup_id, until_at, seq, message_id in answers.get("dedup", []):
            self._memory[key, dedup_id] = until_at, seq, message_id

    def _named_seqs(self) -> set[int]:
        tokens = (token for order in self._orders if isinstance(order, Settle) for token in order.tokens)
        return {token[1] for token in tokens if token is not None}

    def _parcel_queues(self) -> list[Queue]:
        return [
            queue
            for order in self._orders
            if isinstance(order, Send)
            for parcel in order.parcels
            if (queue := self._directory.queue_of_key(parcel.queue.key))
        ]

    def _dedup_keys(self) -> set[tuple[int, bytes]]:
        parcels = [parcel for order in self._orders if isinstance(order, Send) for parcel in order.parcels]
        return {key for parcel in parcels if (key := dedup_key(parcel.queue, parcel.draft))}

    def _fifo_keys(self) -> set[int]:
        sent = {queue.key for queue in self._parcel_queues() if queue.kind is Kind.FIFO}
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
        for index, order in enumerate(self._orders):
            if not isinstance(order, Settle) or (queue := self._live(index, order.queue)) is None:
                continue
            desk = Desk(self._tx, queue, self._rows, self._directory, order.now, order.principal)
            self._outcomes[index] = [
                desk.settle(settlement, token)
                for settlement, token in zip(order.settlements, order.tokens, strict=True)
            ]
            if self._tx.delivered:
                await end_delivered(self._tx, self._directory, at=order.now, principal=order.principal)

    def _send(self) -> None:
        seqs = iter(self._seqs)
        for index, order in enumerate(self._orders):
            if isinstance(order, Send) and order.catalog_version != self._catalog_version:
                self._outcomes[index] = RoutesChanged()
            elif isinstance(order, Send):
                self._tx.events.extend(order.events)
                intake = Intake(
                    self._tx, self._directory, self._sealer, seqs=seqs, memory=self._memory, now=order.now,
                    principal=order.principal,
                )  # fmt: skip
                self._outcomes[index] = intake.take_all(order.parcels)

    async def _receive(self) -> None:
        chosen: list[tuple[int, tuple[Queue, Receive]]] = []
        for index, order in enumerate(self._orders):
            if isinstance(order, Receive) and (queue := self._live(index, order.queue)) is not None:
                chosen.append((index, (queue, order)))
        if chosen:
            parts = await claiming.receive(self._tx, [one for _, one in chosen], self._sealer)
            for (index, _), leases in zip(chosen, parts, strict=True):
                self._outcomes[index] = leases

    async def _tell_dues(self) -> None:
        keys = {key for order in self._orders if isinstance(order, Pass) for key in order.keys}
        queues = [self._queues[key][0] for key in keys if key in self._queues and key not in self._unfinished]
        dues = await passing.next_dues(self._tx, queues) if queues else {}
        dues.update(dict.fromkeys(self._unfinished & keys, 0))
        for index, order in enumerate(self._orders):
            if isinstance(order, Pass):
                self._outcomes[index] = {key: dues[key] for key in order.keys if key in dues}
