"""cfq, a consumer from PyPI, works through a backlog: it acks everything of a second in one call."""

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support.server import start_server

CFQ = Path(sys.prefix) / "cfq"
"""Where `make install-all` puts it: it asks for a newer Python than it needs."""

pytestmark = pytest.mark.slow

BACKLOG = 6_000


def test_a_backlog_of_thousands_is_worked_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with start_server(tmp_path) as server:
        monkeypatch.syspath_prepend(CFQ)
        monkeypatch.setenv("CLOUDFLARE_BASE_URL", f"{server.url}/client/v4")
        queues = Queues(server.url, server.token)
        queue_id = queues.fill(BACKLOG)
        handled = asyncio.run(consume(queues, queue_id, server.token))
    assert handled >= BACKLOG // 2


async def consume(queues: "Queues", queue_id: str, token: str) -> int:
    """Run the consumer as its README says, with its defaults, until half of the backlog is acked."""
    client, handled = importlib.import_module("cfq").CFQ(api_token=token, account_id="default"), 0

    @client.consumer(queue_id=queue_id)  # type: ignore[untyped-decorator]
    async def handle(message: Any) -> None:
        nonlocal handled
        handled += 1

    running = asyncio.create_task(client.start())
    async with asyncio.timeout(120):
        # It forgets the acks that arrive while a flush is under way; those messages come again after a minute.
        while await asyncio.to_thread(queues.backlog_count, queue_id) > BACKLOG // 2:
            await asyncio.sleep(0.2)
    sdk = client._client  # which it drops without closing it
    await client.stop()
    await running
    await sdk.close()
    return handled


class Queues:
    def __init__(self, url: str, token: str) -> None:
        self._path = f"{url}/client/v4/accounts/default/queues"
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {token}"

    def fill(self, count: int) -> str:
        queue_id: str = self._post("", {"queue_name": "orders"})["queue_id"]
        self._post(f"/{queue_id}/consumers", {"type": "http_pull"})
        for _ in range(count // 100):
            self._post(f"/{queue_id}/messages/batch", {"messages": [{"body": {"n": n}} for n in range(100)]})
        return queue_id

    def backlog_count(self, queue_id: str) -> int:
        answer = self._session.get(f"{self._path}/{queue_id}/metrics", timeout=30)
        count: int = answer.json()["result"]["backlog_count"]
        return count

    def _post(self, tail: str, order: Any) -> Any:
        answer = self._session.post(self._path + tail, json=order, timeout=30)
        answer.raise_for_status()
        return answer.json()["result"]
