"""Names are looked up for each tenant by itself: hanging name servers hold up their own tenant at most."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

import pytest

from couriermq.delivery import resolving
from couriermq.delivery.resolving import (
    FAILURE_KEPT_SECONDS,
    KEPT_SECONDS,
    LOOKUP_SECONDS,
    TENANT_LOOKUPS,
    SystemResolver,
)
from tests.support.eventually import eventually


class NameServer:
    """Answers at once, unless a name begins with `hang`: those wait until they are let go."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.hanging = 0
        self.let_go = threading.Event()
        self._lock = threading.Lock()

    def look_up(self, host: str, port: int) -> list[str]:
        with self._lock:
            self.asked[host] += 1
            self.hanging += host.startswith("hang")
        if host.startswith("hang"):
            self.let_go.wait(30)
        if host.startswith("none"):
            raise OSError(-2, "Name or service not known")
        return [f"93.184.216.{self.asked[host]}"]


@contextlib.asynccontextmanager
async def resolving_with(server: NameServer) -> AsyncIterator[SystemResolver]:
    resolver = SystemResolver(server.look_up)
    try:
        yield resolver
    finally:
        server.let_go.set()
        resolver.close()


async def test_hanging_names_of_one_tenant_leave_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    server, loop = NameServer(), asyncio.get_running_loop()
    async with resolving_with(server) as resolver:
        hung = [resolver.resolve(f"hang{number}.example", 80, tenant="evil") for number in range(300)]
        results = asyncio.gather(*hung, return_exceptions=True)
        await eventually(lambda: server.hanging == TENANT_LOOKUPS)
        assert await resolver.resolve("shop.example", 80, tenant="good") == ["93.184.216.1"]
        monkeypatch.setattr(loop, "time", partial(float, loop.time() + LOOKUP_SECONDS))
        assert {str(error) for error in await results} == {"no answer within 5 s"}
        assert server.hanging == TENANT_LOOKUPS


async def test_a_name_that_hangs_fails_at_once_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "LOOKUP_SECONDS", 0.05)
    server = NameServer()
    async with resolving_with(server) as resolver:
        for _ in range(5):
            with pytest.raises(OSError, match="no answer"):
                await resolver.resolve("hang.example", 80, tenant="acme")
        await eventually(lambda: server.asked["hang.example"] == 1)


async def test_answers_and_failures_are_kept_for_a_short_while(monkeypatch: pytest.MonkeyPatch) -> None:
    server, loop = NameServer(), asyncio.get_running_loop()
    start = loop.time()
    async with resolving_with(server) as resolver:
        for passed, shop, none in (
            (0.0, 1, 1),
            (FAILURE_KEPT_SECONDS - 1, 1, 1),
            (FAILURE_KEPT_SECONDS + 1, 1, 2),
            (KEPT_SECONDS + 1, 2, 3),
        ):
            monkeypatch.setattr(loop, "time", partial(float, start + passed))
            assert await resolver.resolve("shop.example", 80, tenant="acme") == [f"93.184.216.{shop}"]
            with pytest.raises(OSError, match="not known"):
                await resolver.resolve("none.example", 80, tenant="acme")
            assert (server.asked["shop.example"], server.asked["none.example"]) == (shop, none)


async def test_tenants_do_not_share_answers() -> None:
    server = NameServer()
    async with resolving_with(server) as resolver:
        assert await resolver.resolve("shop.example", 80, tenant="a") == ["93.184.216.1"]
        assert await resolver.resolve("shop.example", 80, tenant="b") == ["93.184.216.2"]


async def test_callers_that_need_one_name_share_one_lookup() -> None:
    server = NameServer()
    async with resolving_with(server) as resolver:
        await asyncio.gather(*(resolver.resolve("shop.example", 80, tenant="a") for _ in range(50)))
        assert server.asked["shop.example"] == 1


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "TENANT_NAMES", 10)
    monkeypatch.setattr(resolving, "TENANT_COUNT", 10)
    server = NameServer()
    async with resolving_with(server) as resolver:
        for number in range(50):
            await resolver.resolve(f"shop{number}.example", 80, tenant="a")
        assert len(resolver._tenants["a"]._kept) == 10
        for number in range(50):
            await resolver.resolve("shop.example", 80, tenant=f"t{number}")
        assert len(resolver._tenants) == 10
