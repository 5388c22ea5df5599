"""Carries what one shard holds for another: parcels from its outbox, and messages that died or were moved.

A message leaves its shard in the transaction that lets it go, and waits there until it has arrived; whoever carries it
may die at any point. Each arrival is remembered, so a message that is carried twice arrives once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from couriermq.clock import Clock
from couriermq.core.errors import CourierError, QueueNotFound
from couriermq.core.model import Ack, Draft, Lease, Queue, Release, Sent
from couriermq.core.shards import OUTBOX
from couriermq.storage.base import Directory, Filter, Parcel, RoutesChanged
from couriermq.storage.sharded.member import Engine
from couriermq.storage.sharded.places import Places
from couriermq.storage.sharded.residents import outbox

LIMIT = 1_000
LEASE_MS = 10_000
PATIENCE_SECONDS = 5.0
"""For so long a caller waits until what it has caused has arrived; after that it goes on by itself."""
RETRY_SECONDS = 0.5
LEAVE_SECONDS = 0.25
"""For so long what another node has caused is left to that node."""
LOOK_SECONDS = 0.01
WHO = "courier"

log = logging.getLogger(__name__)

Send = Callable[[Sequence[Parcel], int, str], Awaitable[list[Sent | CourierError]]]


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """Parcels for one shard that were sent together with others for another."""

    parcels: list[tuple[int, Draft, int | None]]
    """Queue key, draft, `copy_of`."""
    principal: str
    names: list[str | None] = []
    """What parcels were called on an earlier leg of their way: a queue knows one by that which has come before."""


_bundle = msgspec.msgpack.Decoder(Bundle)


def pack(parcels: Sequence[Parcel], shard: int, *, principal: str) -> Parcel:
    """One parcel for the outbox, which holds the others."""
    packed = [(parcel.queue.key, parcel.draft, parcel.copy_of) for parcel in parcels]
    names = [parcel.once for parcel in parcels] if any(parcel.once for parcel in parcels) else []
    body = msgspec.msgpack.encode(Bundle(parcels=packed, principal=principal, names=names))
    return Parcel(outbox(shard), Draft(body=body, content_type="application/msgpack"))


class Carrier:
    """One task a node, at work while there is something to carry, and one for what could not be carried.

    Callers wait for what is new. Nobody waits for the second task: a shard that is away delays no call to the others.
    """

    def __init__(
        self,
        places: Places,
        catalog: Directory,
        clock: Clock,
        *,
        engine: Callable[[int], Awaitable[Engine]],
        send: Send,
    ) -> None:
        self._places = places
        self._catalog = catalog
        self._clock = clock
        self._engine = engine
        self._send = send
        self._work: set[tuple[int, int]] = set()
        self._late: dict[tuple[int, int], asyncio.Task[bool]] = {}
        """What could not be carried, or not soon: the last attempt, which may be under way."""
        self._renoted: set[tuple[int, int]] = set()
        """Of that, what was noted again since the attempt began, perhaps too late for it."""
        self._attempts: set[asyncio.Task[bool]] = set()
        self._task: asyncio.Task[None] | None = None
        self._retrying: asyncio.Task[None] | None = None
        self._carried: dict[tuple[int, int], int] = {}
        self._closed = False

    def note(self, shard: int, key: int) -> None:
        """Something waits on a shard under a key. Whoever has caused it carries it; later, anybody does."""
        if (shard, key) in self._late:
            self._renoted.add((shard, key))
        else:
            self._work.add((shard, key))
            asyncio.get_running_loop().call_later(LEAVE_SECONDS, self._start)

    def _start(self) -> None:
        if self._task is None and self._work and not self._closed:
            self._task = asyncio.create_task(self._run())

    @property
    def is_busy(self) -> bool:
        return self._task is not None or bool(self._work)

    async def settled(self) -> None:
        """Carry now, and wait until what is known to wait has arrived, unless that takes too long."""
        self._start()
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._task), PATIENCE_SECONDS)

    async def delivered(self, shard: int, target: int, seq: int, *, now: int) -> None:
        """Wait until a parcel of the outbox is gone, unless it cannot be carried now or that takes too long: another
        node may be carrying it."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        await self.settled()
        box = outbox(target)
        while self._carried.get((shard, box.key), 0) < seq and asyncio.get_running_loop().time() < deadline:
            if (shard, box.key) in self._late:
                return
            page = await (await self._engine(shard)).browse(box, now=now, where=Filter(), limit=1)
            if not page.messages or page.messages[0].seq > seq:
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def close(self) -> None:
        self._closed = True
        tasks = [task for task in (self._task, self._retrying, *self._attempts) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._work:
                work, self._work = self._work, set()
                for one in sorted(work):
                    attempt = self._begin(one)
                    await asyncio.wait({attempt}, timeout=PATIENCE_SECONDS)
                    if not (attempt.done() and attempt.result()):
                        self._late[one] = attempt
                        self._retrying = self._retrying or asyncio.create_task(self._retry())
        finally:
            self._task = None

    async def _retry(self) -> None:
        try:
            while self._late:
                await asyncio.sleep(RETRY_SECONDS)
                for one, attempt in list(self._late.items()):
                    if attempt.done() and attempt.result() and one not in self._renoted:
                        del self._late[one]
                    elif attempt.done():
                        self._late[one] = self._begin(one)
        finally:
            self._retrying = None

    def _begin(self, one: tuple[int, int]) -> "asyncio.Task[bool]":
        """An attempt is never cut short: what it has leased would wait until the lease ends."""
        self._renoted.discard(one)
        attempt = asyncio.create_task(self._tried(*one))
        self._attempts.add(attempt)
        attempt.add_done_callback(self._attempts.discard)
        return attempt

    async def _tried(self, shard: int, key: int) -> bool:
        try:
            await (self._carry_parcels(shard, key) if key >= OUTBOX else self._carry_messages(shard, key))
        except Exception as error:
            log.warning("what shard %d holds for others waits: %s", shard, error)
            return False
        return True

    # -- messages ---------------------------------------------------------------------------------------------

    async def _carry_messages(self, shard: int, key: int) -> None:
        source = await self._engine(shard)
        while travellers := await source.porting.travellers(key, limit=LIMIT):
            seqs = [traveller[0] for traveller in travellers]
            queue = await self._known(-key)
            if queue is None:
                log.warning("%d messages were on their way to a queue that has been deleted", len(seqs))
            elif self._places.of(queue.key) == shard:  # it has moved to where they wait
                await source.porting.come_home(key, queue, limit=LIMIT, now=self._clock.now())
                continue
            else:
                target = await self._engine(self._places.of(queue.key))
                await target.porting.arrive(queue, travellers, source=shard, now=self._clock.now())
            await source.porting.depart(key, seqs)

    async def _known(self, key: int) -> Queue | None:
        """The queue; None for one that was deleted. One that this node does not know another may have just made."""
        if self._catalog.queue_of_key(key) is None:
            await (await self._engine(0)).refresh()
        return self._catalog.queue_of_key(key)

    # -- parcels ----------------------------------------------------------------------------------------------

    async def _carry_parcels(self, shard: int, key: int) -> None:
        source, box = await self._engine(shard), outbox(key - OUTBOX)
        while leases := await source.receive(box, limit=LIMIT, lease_ms=LEASE_MS, now=self._clock.now(), principal=WHO):
            done = 0
            try:
                for lease in leases:
                    await self._deliver(shard, lease)
                    self._carried[shard, key] = lease.message.seq
                    done += 1
            finally:
                acks = [Ack(lease.receipt) for lease in leases[:done]]
                back = [Release(lease.receipt, delay_ms=0, untried=True) for lease in leases[done:]]
                await source.settle(box, [*acks, *back], now=self._clock.now(), principal=WHO)

    async def _deliver(self, shard: int, lease: Lease) -> None:
        bundle = _bundle.decode(lease.message.body)
        names = bundle.names or [None] * len(bundle.parcels)
        parcels = [
            Parcel(
                await self._known(key) or _gone(key), draft, copy_of, once=name or f"{shard}:{lease.message.seq}:{n}"
            )
            for n, ((key, draft, copy_of), name) in enumerate(zip(bundle.parcels, names, strict=True))
        ]
        for parcel, outcome in zip(parcels, await self._take_along(parcels, bundle.principal), strict=True):
            if isinstance(outcome, CourierError) and not isinstance(outcome, QueueNotFound):
                raise outcome
            if isinstance(outcome, QueueNotFound):
                log.info("a message was on its way to queue %s, which has been deleted", parcel.queue.name)

    async def _take_along(self, parcels: Sequence[Parcel], principal: str) -> list[Sent | CourierError]:
        """The parcels were addressed when they were sent; what has changed since does not matter to them."""
        while True:
            with contextlib.suppress(RoutesChanged):
                return await self._send(parcels, self._clock.now(), principal)


def _gone(key: int) -> Queue:
    return Queue(key=key, id="", tenant="", name=f"key {key}")
