"""What tenants hold, for the quotas that limit it.

Counting means asking the store about all queues of a tenant, so a node counts at most once a second and adds what it
stores itself in between. A limit therefore holds exactly on one node, and a message that was acked makes room after a
second at the latest. Other nodes of a cluster may exceed it by what they store within that second.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import msgspec

from couriermq.catalog import Catalog
from couriermq.clock import Clock
from couriermq.core.errors import QuotaExceeded, StorageExceeded, TooManyReceivers
from couriermq.core.model import Queue
from couriermq.core.quotas import Quotas
from couriermq.storage.base import Store

COUNTED_MS = 1_000
PACE = 20
"""Counting takes at most one part in this many of a node's time, however many queues a tenant has."""


class Held(msgspec.Struct):
    """What a tenant held at an instant, with what this node has added to it since."""

    counted_at: int
    messages: int
    message_bytes: int
    stages: set[tuple[str, str]]
    counting_ms: int = 0

    def is_old(self, now: int) -> bool:
        return not 0 <= now - self.counted_at < max(COUNTED_MS, PACE * self.counting_ms)


class _Stored(msgspec.Struct):
    """What this node is storing now: a count may or may not include it."""

    messages: int = 0
    message_bytes: int = 0


class Usage:
    """Counts what tenants hold, and refuses what would exceed their quotas."""

    def __init__(self, store: Store, catalog: Catalog, clock: Clock) -> None:
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self._held: dict[str, Held] = {}
        self._storing: dict[str, _Stored] = {}
        self._counting: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()

    async def held(self, tenant: str) -> Held:
        """What a tenant holds, counted at most COUNTED_MS ago unless counting takes long."""
        now = self._clock.now()
        held = self._held.get(tenant)
        if held is not None and not held.is_old(now):
            return held
        async with self._counting.setdefault(tenant, asyncio.Lock()):
            held = self._held.get(tenant)
            if held is None or held.is_old(self._clock.now()):
                held = self._held[tenant] = await self._count(tenant)
        return held

    async def _count(self, tenant: str) -> Held:
        started = self._clock.now()
        queues = [queue for queue in self._catalog.all_queues() if queue.tenant == tenant]
        targets = [queue.id for queue in queues] + [exchange.id for exchange in self._catalog.exchanges(tenant)]
        storing = self._storing.get(tenant, _Stored())
        messages, message_bytes = storing.messages, storing.message_bytes  # later sends wait for this count
        counters = (await self._store.counters_of(queues, now=started)).values()
        staged = await self._store.staged(targets)
        return Held(
            counted_at=started,
            messages=sum(one.total_count for one in counters) + staged.message_count + messages,
            message_bytes=sum(one.byte_count for one in counters) + staged.byte_count + message_bytes,
            stages=set(staged.stages),
            counting_ms=max(0, self._clock.now() - started),
        )

    @contextlib.asynccontextmanager
    async def storing(self, tenant: str, messages: int, message_bytes: int) -> AsyncIterator[None]:
        """While messages of a tenant are stored; raises StorageExceeded where they do not fit into its quota."""
        quotas = self._catalog.quotas(tenant)
        if not quotas.limits_storage:
            yield
            return
        held = await self.held(tenant)
        _check_storage(quotas, held, messages, message_bytes)
        storing = self._storing.setdefault(tenant, _Stored())
        for one in (held, storing):
            one.messages += messages
            one.message_bytes += message_bytes
        try:
            yield
        finally:
            storing.messages -= messages
            storing.message_bytes -= message_bytes
            if not storing.messages and not storing.message_bytes:
                self._storing.pop(tenant, None)

    async def check_stage(self, tenant: str, target: str, stage: str) -> None:
        """Count a stage that somebody brings messages to; raises QuotaExceeded for one too many."""
        limit = self._catalog.quotas(tenant).max_stages
        if limit is None:
            return
        stages = (await self.held(tenant)).stages
        if (target, stage) not in stages and len(stages) >= limit:
            raise QuotaExceeded("max_stages", limit)
        stages.add((target, stage))

    @contextlib.contextmanager
    def waiting(self, queue: Queue) -> Iterator[None]:
        """While a receiver waits; raises TooManyReceivers where too many do."""
        tenant, limit = queue.tenant, self._catalog.quotas(queue.tenant).max_waiting_receivers
        if limit is not None and self._waiting[tenant] >= limit:
            raise TooManyReceivers(limit)
        self._waiting[tenant] += 1
        try:
            yield
        finally:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant]

    def waiting_count(self, tenant: str) -> int:
        """How many receivers of a tenant wait on this node."""
        return self._waiting[tenant]


def _check_storage(quotas: Quotas, held: Held, messages: int, message_bytes: int) -> None:
    if quotas.max_messages is not None and held.messages + messages > quotas.max_messages:
        raise StorageExceeded("max_messages", quotas.max_messages)
    if quotas.max_message_bytes is not None and held.message_bytes + message_bytes > quotas.max_message_bytes:
        raise StorageExceeded("max_message_bytes", quotas.max_message_bytes)
