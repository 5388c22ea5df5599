"""Names into addresses: bounded for each tenant, so that one tenant's name servers hold up nobody else's deliveries.

The system's resolver blocks, so every lookup takes a thread until it ends, however long the name server takes. A
tenant has at most TENANT_LOOKUPS of the THREADS at a time, and its other lookups wait for its own. Answers are kept
for a short while, failures too. Nothing is shared between tenants: neither an answer, nor the time that it took.
"""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

THREADS = 256
TENANT_LOOKUPS = 4
LOOKUP_SECONDS = 5.0
KEPT_SECONDS = 30.0
FAILURE_KEPT_SECONDS = 10.0
TENANT_NAMES = 256
"""How many answers are kept for a tenant."""
TENANT_COUNT = 1_000
"""For how many tenants answers are kept."""

Lookup = Callable[[str, int], list[str]]


class _Kept(msgspec.Struct, frozen=True):
    """What a lookup came to: addresses, or why there are none."""

    addresses: list[str]
    failure: str | None
    until: float


class SystemResolver:
    """Asks the system, once at a time for each name of a tenant."""

    def __init__(self, lookup: Lookup | None = None) -> None:
        self._lookup = lookup or look_up
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="courier-resolve")
        self._tenants: OrderedDict[str, _TenantNames] = OrderedDict()

    async def resolve(self, host: str, port: int, *, tenant: str) -> list[str]:
        """Every address of the name; raises OSError when there is none or the name server is too slow."""
        names = self._tenants.get(tenant)
        if names is None:
            names = self._tenants[tenant] = _TenantNames(self._lookup, self._threads)
            self._forget_idle_tenants()
        self._tenants.move_to_end(tenant)
        return await names.resolve(host, port)

    def _forget_idle_tenants(self) -> None:
        idle = [tenant for tenant, names in self._tenants.items() if not names.is_busy]
        for tenant in idle[: max(0, len(self._tenants) - TENANT_COUNT)]:
            del self._tenants[tenant]

    def close(self) -> None:
        for names in self._tenants.values():
            names.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)


class _TenantNames:
    """The lookups of one tenant and what is kept of them."""

    def __init__(self, lookup: Lookup, threads: ThreadPoolExecutor) -> None:
        self._lookup = lookup
        self._threads = threads
        self._free = asyncio.Semaphore(TENANT_LOOKUPS)
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._asking: dict[str, asyncio.Task[_Kept]] = {}

    @property
    def is_busy(self) -> bool:
        return bool(self._asking)

    def stop(self) -> None:
        for task in self._asking.values():
            task.cancel()

    async def resolve(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        known = self._kept.get(host)
        if known is None or known.until <= loop.time():
            known = await self._ask_once(host, port)
        if known.failure is not None:
            raise OSError(known.failure)
        return known.addresses

    async def _ask_once(self, host: str, port: int) -> _Kept:
        """Callers that need the same name share one lookup; it goes on when they have given up."""
        task = self._asking.get(host)
        if task is None:
            task = self._asking[host] = asyncio.create_task(self._ask(host, port))
            task.add_done_callback(lambda done: self._asking.pop(host, None))
        try:
            return await asyncio.wait_for(asyncio.shield(task), LOOKUP_SECONDS)
        except TimeoutError:
            now = asyncio.get_running_loop().time()
            slow = f"no answer within {LOOKUP_SECONDS:.0f} s"
            return self._keep(host, _Kept([], slow, now + FAILURE_KEPT_SECONDS))

    async def _ask(self, host: str, port: int) -> _Kept:
        loop = asyncio.get_running_loop()
        async with self._free:
            try:
                addresses = await loop.run_in_executor(self._threads, self._lookup, host, port)
            except (OSError, UnicodeError, RuntimeError) as error:  # RuntimeError: the server is stopping
                failure = getattr(error, "strerror", None) or str(error)
                return self._keep(host, _Kept([], failure, loop.time() + FAILURE_KEPT_SECONDS))
        return self._keep(host, _Kept(addresses, None, loop.time() + KEPT_SECONDS))

    def _keep(self, host: str, kept: _Kept) -> _Kept:
        self._kept[host] = kept
        self._kept.move_to_end(host)
        if len(self._kept) > TENANT_NAMES:
            self._kept.popitem(last=False)
        return kept


def look_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
