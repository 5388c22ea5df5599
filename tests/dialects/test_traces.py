"""A message carries the trace context of its sender, in every dialect, and nothing else in its place."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from couriermq.server import DIALECTS
from tests.support.inprocess import ROOT_TOKEN, InProcess, courier_app

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
HOSTILE = ("0" * 5_000, "\ud800", TRACE + "-more", TRACE + "\r\nevil: 1", "00-zz-1", "")

NATIVE = "/courier/v1/tenants/default/queues"
CLOUDFLARE = "/client/v4/accounts/default/queues/orders"
ANYPOINT = "/api/v1/organizations/default/environments/default/destinations/orders/messages"
DISCUE = {"x-api-key": ROOT_TOKEN, "host": "courier.test"}


class Send(NamedTuple):
    method: str
    path: str
    order: Any
    headers: Mapping[str, str] = MappingProxyType({})


SENDS = {
    "native": Send("POST", f"{NATIVE}/orders/messages", {"body": "x"}),
    "native batch": Send("POST", f"{NATIVE}/orders/messages", {"messages": [{"body": "x"}]}),
    "push": Send("POST", f"{CLOUDFLARE}/messages", {"body": {}}),
    "push batch": Send("POST", f"{CLOUDFLARE}/messages/batch", {"messages": [{"body": {}}]}),
    "binding": Send("POST", f"{CLOUDFLARE}/binding/message", {}),
    "binding batch": Send("POST", f"{CLOUDFLARE}/binding/batch", {"messages": [{"body": "eA=="}]}),
    "publish": Send("PUT", f"{ANYPOINT}/m-1", {"body": "x"}),
    "publish batch": Send("PUT", ANYPOINT, [{"headers": {"messageId": "m-1"}, "body": "x"}]),
    "add": Send("POST", "/v1/queues/ID/messages", {"data": "x"}, DISCUE),
}


class Courier:
    def __init__(self, app: InProcess, queue_id: str) -> None:
        self.app = app
        self.queue_id = queue_id

    async def send(self, send: Send, *, header: str | None = None) -> None:
        headers = send.headers if header is None else {**send.headers, "traceparent": header}
        token = None if send.headers else ROOT_TOKEN
        path = send.path.replace("ID", self.queue_id)
        reply = await self.app.request(send.method, path, json=send.order, headers=headers, token=token)
        assert reply.status < 300, reply

    async def trace(self) -> str | None:
        """The trace of the only message, which is removed."""
        [message] = (await self.app.get(f"{NATIVE}/orders/messages")).json()["messages"]
        await self.app.post(f"{NATIVE}/orders/purge")
        trace: str | None = message.get("trace")
        return trace


@pytest.fixture
async def courier(tmp_path: Path) -> AsyncIterator[Courier]:
    async with courier_app(tmp_path, dialects=DIALECTS) as app:
        made = (await app.post(NATIVE, {"name": "orders"})).json()
        yield Courier(app, made["id"])


@pytest.mark.parametrize("name", SENDS)
async def test_a_trace_in_a_header_is_carried_where_it_is_well_formed(name: str, courier: Courier) -> None:
    await courier.send(SENDS[name], header=TRACE)
    assert await courier.trace() == TRACE
    for header in (text for text in HOSTILE if text.isascii()):
        await courier.send(SENDS[name], header=header)
        assert await courier.trace() is None, header


async def test_a_trace_among_the_headers_of_a_message_is_carried_where_it_is_well_formed(courier: Courier) -> None:
    for text in (TRACE, *HOSTILE, 5, True):
        body = json.dumps({"headers": {"traceparent": text}, "body": "x"}).encode()
        reply = await courier.app.request("PUT", f"{ANYPOINT}/m-1", body=body)
        assert reply.status == 201, reply
        assert await courier.trace() == (TRACE if text == TRACE else None), text


async def test_a_trace_in_a_header_stands_in_for_a_bad_one_of_the_message(courier: Courier) -> None:
    order = {"headers": {"traceparent": "0" * 5_000}, "body": "x"}
    await courier.send(Send("PUT", f"{ANYPOINT}/m-1", order), header=TRACE)
    assert await courier.trace() == TRACE
