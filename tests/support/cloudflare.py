"""A Cloudflare client of a Courier in the same process, in the words of the vendor's API."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from couriermq.clock import FakeClock
from couriermq.config import CloudflareSettings, DialectSettings, Settings
from couriermq.core.model import Action, Scope
from couriermq.server import running
from tests.support.inprocess import ROOT_TOKEN, InProcess, Response

PREFIX = "/client/v4/accounts"


class Account:
    """One account as one caller sees it."""

    def __init__(self, app: InProcess, account: str = "default", **options: Any) -> None:
        self.app = app
        self.path = f"{PREFIX}/{account}"
        self._options = options

    @property
    def clock(self) -> FakeClock:
        return self.app.clock

    async def call(self, method: str, path: str, json: Any = msgspec.UNSET, **options: Any) -> Response:
        return await self.app.request(method, self.path + path, json=json, **(self._options | options))

    async def result(self, method: str, path: str, json: Any = msgspec.UNSET, **options: Any) -> Any:
        """What a call that must succeed gives."""
        return accepted(await self.call(method, path, json, **options))

    async def queue(self, name: str = "orders", *, pull: bool = True, **consumer: Any) -> "Queue":
        """A new queue, with an http_pull consumer unless it should have none."""
        made = await self.result("POST", "/queues", {"queue_name": name})
        queue = Queue(self, made["queue_id"], name)
        if pull:
            await queue.consume(**consumer)
        return queue

    async def backlog_count(self) -> int:
        """How many messages all the queues of the account hold."""
        listed = await self.result("GET", "/queues")
        metrics = [await self.result("GET", f"/queues/{queue['queue_id']}/metrics") for queue in listed]
        return sum(figures["backlog_count"] for figures in metrics)

    async def with_scopes(self, *actions: Action, queues: tuple[str, ...] = ("*",)) -> "Account":
        """The same account in the eyes of a credential that may do no more than this."""
        _, secret = await self.app.services.catalog.create_credential(
            "default", "limited", scopes=[Scope(action, queues) for action in actions], principal="test"
        )
        return Account(self.app, token=secret)


class Queue:
    def __init__(self, account: Account, queue_id: str, name: str) -> None:
        self.account = account
        self.id = queue_id
        self.name = name
        self.path = f"/queues/{queue_id}"

    async def call(self, method: str, path: str, json: Any = msgspec.UNSET, **options: Any) -> Response:
        return await self.account.call(method, self.path + path, json, **options)

    async def result(self, method: str, path: str, json: Any = msgspec.UNSET, **options: Any) -> Any:
        return await self.account.result(method, self.path + path, json, **options)

    async def get(self) -> Any:
        return await self.result("GET", "")

    async def consume(self, dead_letter_queue: str | None = None, **settings: Any) -> Any:
        order = {"type": "http_pull", "settings": settings}
        if dead_letter_queue is not None:
            order["dead_letter_queue"] = dead_letter_queue
        return await self.result("POST", "/consumers", order)

    async def push(self, body: Any, **options: Any) -> Any:
        return await self.result("POST", "/messages", {"body": body, **options})

    async def push_batch(self, *messages: Any, **options: Any) -> Any:
        return await self.result("POST", "/messages/batch", {"messages": list(messages), **options})

    async def pull(self, **options: Any) -> list[Any]:
        pulled = await self.result("POST", "/messages/pull", options)
        messages: list[Any] = pulled["messages"]
        return messages

    async def pull_one(self, **options: Any) -> Any:
        (message,) = await self.pull(**options)
        return message

    async def ack(self, *lease_ids: str) -> Any:
        return await self.result("POST", "/messages/ack", {"acks": [{"lease_id": lease_id} for lease_id in lease_ids]})

    async def retry(self, *lease_ids: str, **options: Any) -> Any:
        retries = [{"lease_id": lease_id, **options} for lease_id in lease_ids]
        return await self.result("POST", "/messages/ack", {"retries": retries})

    async def peek(self, **options: Any) -> list[Any]:
        peeked = await self.result("POST", "/messages/peek", options)
        messages: list[Any] = peeked["messages"]
        return messages

    async def metrics(self) -> Any:
        return await self.result("GET", "/metrics")

    async def count(self) -> int:
        count: int = (await self.metrics())["backlog_count"]
        return count


def accepted(response: Response) -> Any:
    answer = response.json()
    assert response.status == 200, answer
    assert (answer["success"], answer["errors"]) == (True, [])
    assert isinstance(answer["messages"], list)
    return answer["result"]


def refused(response: Response) -> tuple[int, int, str]:
    """Status, code and sentence of a refusal, whose envelope must be whole."""
    answer = response.json()
    assert (answer["success"], answer["result"]) == (False, None), answer
    (problem,) = answer["errors"]
    return response.status, problem["code"], problem["message"]


@contextlib.asynccontextmanager
async def cloudflare_account(
    tmp_path: Path,
    *,
    json_body: Literal["plain", "base64"] = "plain",
    dialects: Sequence[str] = ("native", "cloudflare"),
) -> AsyncIterator[Account]:
    """The default account of a Courier whose clock is moved by hand."""
    settings = Settings(
        data=tmp_path / "data",
        root_token=ROOT_TOKEN,
        dialects=DialectSettings(cloudflare=CloudflareSettings(json_body=json_body)),
    )
    clock = FakeClock()
    async with running(settings, clock=clock, dialects=dialects) as node:
        yield Account(InProcess(node, clock))
