"""A native client of a Courier in the same process."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from couriermq.clock import FakeClock
from tests.support.inprocess import InProcess, Response, courier_app

PREFIX = "/courier/v1"
ALL = ("*",)


class Tenant:
    """One tenant as one caller sees it; paths are those below the tenant, or whole ones below the prefix."""

    def __init__(self, app: InProcess, tenant: str = "default", **options: Any) -> None:
        self.app = app
        self.name = tenant
        self._options = options

    @property
    def clock(self) -> FakeClock:
        assert isinstance(self.app.clock, FakeClock)
        return self.app.clock

    async def call(self, method: str, path: str, json: Any = msgspec.UNSET, **options: Any) -> Response:
        whole = path if path.startswith(PREFIX) else f"{PREFIX}/tenants/{self.name}{path}"
        return await self.app.request(method, whole, json=json, **(self._options | options))

    async def ask(self, method: str, path: str, json: Any = msgspec.UNSET, **options: Any) -> Any:
        """What a call that must succeed gives."""
        response = await self.call(method, path, json, **options)
        assert response.status < 300, response
        return response.json() if response.body else None

    async def refused(self, method: str, path: str, json: Any = msgspec.UNSET, **options: Any) -> dict[str, Any]:
        """The problem that a call that must fail gives."""
        response = await self.call(method, path, json, **options)
        assert response.status >= 400, response
        assert response.headers["content-type"] == "application/problem+json"
        problem: dict[str, Any] = response.json()
        assert problem["status"] == response.status
        assert problem["type"].startswith("urn:courier:problem:")
        return problem

    async def queue(self, name: str = "orders", *, kind: str = "standard", **settings: Any) -> "Queue":
        await self.ask("POST", "/queues", {"name": name, "kind": kind, "settings": settings})
        return Queue(self, name)

    async def with_scopes(self, *scopes: tuple[str, Sequence[str]], **more: Any) -> "Tenant":
        """The same tenant in the eyes of a credential that may do no more than this."""
        written = [{"action": action, "queues": queues} for action, queues in scopes]
        made = await self.ask("POST", "/credentials", {"name": "limited", "scopes": written, **more})
        return Tenant(self.app, self.name, token=made["secret"])


class Queue:
    """One queue of a tenant."""

    def __init__(self, tenant: Tenant, name: str) -> None:
        self.tenant = tenant
        self.name = name
        self.path = f"/queues/{quote(name, safe='')}"

    def of(self, tenant: Tenant) -> "Queue":
        """The same queue in the eyes of another caller."""
        return Queue(tenant, self.name)

    async def call(self, method: str, path: str, json: Any = msgspec.UNSET, **options: Any) -> Response:
        return await self.tenant.call(method, self.path + path, json, **options)

    async def ask(self, method: str, path: str, json: Any = msgspec.UNSET, **options: Any) -> Any:
        return await self.tenant.ask(method, self.path + path, json, **options)

    async def refused(self, method: str, path: str, json: Any = msgspec.UNSET, **options: Any) -> dict[str, Any]:
        return await self.tenant.refused(method, self.path + path, json, **options)

    async def send(self, body: str = "hello", **more: Any) -> Any:
        return await self.ask("POST", "/messages", {"body": body, **more})

    async def receive(self, limit: int = 1, **more: Any) -> list[Any]:
        leases: list[Any] = (await self.ask("POST", "/receive", {"limit": limit, **more}))["leases"]
        return leases

    async def receive_one(self, **more: Any) -> Any:
        (lease,) = await self.receive(**more)
        return lease

    async def bodies(self) -> list[str]:
        return [message["body"] for message in (await self.ask("GET", "/messages"))["messages"]]


@contextlib.asynccontextmanager
async def native_tenant(tmp_path: Path, **settings: Any) -> AsyncIterator[Tenant]:
    """The default tenant of a new Courier that speaks only the native dialect, as root sees it."""
    async with courier_app(tmp_path, dialects=("native",), **settings) as app:
        yield Tenant(app)
