"""A client that leaves before its answer is written takes no message with it, whichever dialect it speaks."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.model import Draft
from couriermq.storage.group_commit import Collector
from couriermq.web.budget import Budget
from couriermq.web.protocol import Connection
from couriermq.web.state import ServerState
from tests.support.inprocess import ROOT_TOKEN, InProcess, courier_app
from tests.support.peer import DEADLINES, FakeTransport

ACCOUNT = "/client/v4/accounts/default"
MESSAGES = "/api/v1/organizations/default/environments/default/destinations/orders/messages"
RECEIVES = {
    "native": ("POST", "/courier/v1/tenants/default/queues/orders/receive"),
    "cloudflare": ("POST", f"{ACCOUNT}/queues/orders/messages/pull"),
    "anypoint": ("GET", f"{MESSAGES}?pollingTime=20000"),
}


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[InProcess]:
    async with courier_app(tmp_path) as app:
        await app.post(f"{ACCOUNT}/queues", {"queue_name": "orders"})
        consumer = {"type": "http_pull", "settings": {"max_retries": 0}}
        assert (await app.post(f"{ACCOUNT}/queues/orders/consumers", consumer)).status == 200
        yield app


@pytest.mark.parametrize("dialect", RECEIVES)
async def test_messages_whose_answer_cannot_be_written_go_back_untried(
    app: InProcess, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, broker = app.services.catalog.queue("default", "orders"), app.services.broker
    await broker.send_one(queue, Draft(body=b"hi"), principal="tester")
    state = ServerState(app.node.app, DEADLINES, Budget(1_000_000))
    connection = Connection(state)
    connection.connection_made(FakeTransport())
    answer = Collector._answer

    def leave_and_answer(collector: Collector, results: Any) -> None:
        monkeypatch.undo()
        connection.connection_lost(None)
        answer(collector, results)

    monkeypatch.setattr(Collector, "_answer", leave_and_answer)
    method, path = RECEIVES[dialect]
    head = f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ROOT_TOKEN}\r\ncontent-length: 0\r\n\r\n"
    connection.data_received(head.encode())
    await asyncio.wait(state.tasks)
    (lease,) = await broker.receive(queue, principal="tester")
    assert lease.message.attempts == 1
