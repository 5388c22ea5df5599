"""A caller of the Discue dialect in process: paths are short, good answers come as JSON."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from couriermq.clock import FakeClock
from couriermq.core.model import Action, Scope
from tests.support.inprocess import ROOT_TOKEN, InProcess, Response, courier_app

LIVE = "https://example.com/live"
NOTIFY = "https://example.com/notify"


class Organization:
    """What one key can see of one tenant."""

    def __init__(self, app: InProcess, *, key: str | None = ROOT_TOKEN, prefix: str = "") -> None:
        self.app = app
        self.key = key
        self.prefix = prefix

    @property
    def clock(self) -> FakeClock:
        return self.app.clock

    async def call(self, method: str, path: str, json: Any = msgspec.UNSET, **options: Any) -> Response:
        headers = {"host": "courier.test", **options.pop("headers", {})}
        if self.key is not None:
            headers["x-api-key"] = self.key
        return await self.app.request(method, self.prefix + path, json=json, token=None, headers=headers, **options)

    async def get(self, path: str, **options: Any) -> Any:
        return good(await self.call("GET", path, **options))

    async def post(self, path: str, json: Any = msgspec.UNSET, **options: Any) -> Any:
        return good(await self.call("POST", path, json, **options))

    async def put(self, path: str, json: Any = msgspec.UNSET, **options: Any) -> Any:
        return good(await self.call("PUT", path, json, **options))

    async def delete(self, path: str) -> Any:
        return good(await self.call("DELETE", path))

    # -- the things that most tests need ----------------------------------------------------------------------

    async def queue(self, name: str = "orders", **more: Any) -> str:
        """The id of a new queue."""
        created = await self.post("/queues", {"name": name, **more})
        return str(created["queue"]["id"])

    async def listener(self, queue_id: str, name: str = "shop", **more: Any) -> dict[str, Any]:
        order = {"name": name, "notify_url": NOTIFY, "liveness_url": LIVE, **more}
        created = await self.post(f"/queues/{queue_id}/listeners", order)
        listener: dict[str, Any] = created["listener"]
        return listener

    async def add(self, queue_id: str, data: str = "hello", **more: Any) -> str:
        """The id of a new message."""
        added = await self.post(f"/queues/{queue_id}/messages", {"data": data, **more})
        return str(added["message"]["id"])

    async def count(self, queue_id: str) -> int:
        return len((await self.get(f"/queues/{queue_id}/messages"))["messages"])

    def with_key(self, key: str | None) -> "Organization":
        return Organization(self.app, key=key, prefix=self.prefix)

    async def with_scopes(
        self, *actions: Action, queues: tuple[str, ...] = ("*",), tenant: str = "default", **more: Any
    ) -> "Organization":
        """The same in the eyes of a credential that was made in our own words."""
        _, secret = await self.app.services.catalog.create_credential(
            tenant, "limited", scopes=[Scope(action, queues) for action in actions], principal="test", **more
        )
        return self.with_key(secret)

    async def tenant(self, name: str) -> "Organization":
        """Another tenant, and a key that may do everything in it."""
        await self.app.services.catalog.create_tenant(name, principal="test")
        return await self.with_scopes(*Action, tenant=name)


def good(response: Response) -> Any:
    answer = response.json()
    assert response.status == 200, (response, response.headers)
    assert answer["_links"]["self"]["href"].startswith("http://courier.test/"), answer
    return answer


def refused(response: Response, status: int) -> str:
    """The sentence of a refusal, whose body must have the vendor's two fields and no more."""
    answer = response.json()
    assert (response.status, sorted(answer)) == (status, ["status", "title"]), (response, response.headers)
    assert answer["status"] == status
    return response.headers.get("x-courier-detail", "")


@contextlib.asynccontextmanager
async def discue_organization(tmp_path: Path, **settings: Any) -> AsyncIterator[Organization]:
    """The default organization of a Courier whose clock is moved by hand."""
    async with courier_app(tmp_path, clock=FakeClock(), **settings) as app:
        yield Organization(app)
