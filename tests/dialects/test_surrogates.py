"""A string that was cut inside an emoji goes in and comes out unchanged, in every dialect."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from couriermq.clock import FakeClock
from couriermq.server import DIALECTS
from tests.support.anypoint import AnypointCaller
from tests.support.inprocess import ROOT_TOKEN, InProcess, courier_app

CLOUDFLARE = "/client/v4/accounts/default/queues"
NATIVE = "/courier/v1/tenants/default/queues"
ANYPOINT = "/api/v1/organizations/default/environments/default/destinations"
DISCUE = {"x-api-key": ROOT_TOKEN, "host": "courier.test"}

CUT = "cut \ud83d"
DOCUMENT = {"name": CUT, "\ude00": ["\ud83d\ude00", "\udc00\ud800", "\\ud83d", "\ufdd0d83d"]}

HALVES = st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF, categories=["Cs"])
TEXT = st.text(st.characters() | HALVES, max_size=10)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)


class Courier:
    """One queue, seen by every dialect."""

    def __init__(self, app: InProcess, queue_id: str) -> None:
        self.app = app
        self.queue_id = queue_id

    async def send(self, path: str, order: Any, *, method: str = "POST", **options: Any) -> Any:
        """`json` of the standard library writes halves of surrogate pairs as JavaScript does."""
        headers = options.pop("headers", {}) | {"content-type": "application/json"}
        response = await self.app.request(method, path, body=json.dumps(order).encode(), headers=headers, **options)
        assert response.status < 300, response
        return json.loads(response.body) if response.body else None

    async def pull(self) -> Any:
        order = {"visibility_timeout_ms": 0}
        return (await self.send(f"{CLOUDFLARE}/orders/messages/pull", order))["result"]["messages"][-1]

    async def receive(self) -> Any:
        return (await self.send(f"{NATIVE}/orders/receive", {"lease_ms": 0}))["leases"][-1]["message"]

    async def browse(self) -> Any:
        response = await self.app.get(f"{NATIVE}/orders/messages")
        return json.loads(response.body)["messages"][-1]

    async def consume(self) -> Any:
        response = await AnypointCaller(self.app).broker("GET", "orders", "?pollingTime=0&batchSize=1&lockTtl=0")
        assert response.status == 200, response
        return json.loads(response.body)[-1]

    async def get(self, message_id: str) -> Any:
        path = f"/v1/queues/{self.queue_id}/messages/{message_id}"
        response = await self.app.request("GET", path, headers=DISCUE, token=None)
        assert response.status == 200, response
        return json.loads(response.body)["message"]

    async def bodies(self) -> list[str]:
        """The body of the only message, as each dialect shows it."""
        message = await self.browse()
        assert message["id"] == (await self.receive())["id"]
        return [
            message["body"],
            (await self.pull())["body"],
            (await self.consume())["body"],
            (await self.get(message["id"]))["data"],
        ]


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Courier]:
    async with courier_app(folder, clock=FakeClock(), dialects=DIALECTS) as app:
        made = (await app.post(NATIVE, {"name": "orders"})).json()
        await app.post(f"{CLOUDFLARE}/orders/consumers", {"type": "http_pull", "settings": {"max_retries": 100}})
        yield Courier(app, made["id"])


@pytest.fixture
async def courier(tmp_path: Path) -> AsyncIterator[Courier]:
    async with opened(tmp_path) as courier:
        yield courier


async def test_text_that_is_sent_in_one_dialect_is_the_same_in_all(courier: Courier) -> None:
    senders: list[tuple[str, str, Any, dict[str, Any]]] = [
        ("POST", f"{CLOUDFLARE}/orders/messages", {"body": CUT, "content_type": "text"}, {}),
        ("POST", f"{CLOUDFLARE}/orders/messages/batch", {"messages": [{"body": CUT, "content_type": "text"}]}, {}),
        ("POST", f"{NATIVE}/orders/messages", {"body": CUT}, {}),
        ("POST", f"{NATIVE}/orders/messages", {"messages": [{"body": CUT}]}, {}),
        ("PUT", f"{ANYPOINT}/orders/messages/m-1", {"body": CUT}, {}),
        ("PUT", f"{ANYPOINT}/orders/messages", [{"headers": {"messageId": "m-2"}, "body": CUT}], {}),
        ("POST", "/v1/queues/orders/messages", {"data": CUT}, {"headers": DISCUE, "token": None}),
    ]
    for method, path, order, options in senders:
        await courier.send(path.replace("/v1/queues/orders", f"/v1/queues/{courier.queue_id}"), order, method=method,
                           **options)  # fmt: skip
        assert await courier.bodies() == [CUT] * 4, path
        await courier.send(f"{NATIVE}/orders/purge", {})


async def test_json_that_is_sent_in_one_dialect_is_the_same_in_all(courier: Courier) -> None:
    text = json.dumps(DOCUMENT)
    for path, order in [
        (f"{CLOUDFLARE}/orders/messages", {"body": DOCUMENT}),
        (f"{CLOUDFLARE}/orders/messages/batch", {"messages": [{"body": DOCUMENT}]}),
        (f"{NATIVE}/orders/messages", {"json": DOCUMENT}),
    ]:
        await courier.send(path, order)
        assert await courier.bodies() == [text] * 4, path
        await courier.send(f"{NATIVE}/orders/purge", {})


async def test_one_message_with_half_a_character_does_not_cost_the_others_of_its_batch(courier: Courier) -> None:
    orders = [{"body": {"n": 1}}, {"body": {"n": CUT}}, {"body": "whole", "content_type": "text"}]
    await courier.send(f"{CLOUDFLARE}/orders/messages/batch", {"messages": orders})
    pulled = await courier.send(f"{CLOUDFLARE}/orders/messages/pull", {"batch_size": 10})
    assert [one["body"] for one in pulled["result"]["messages"]] == ['{"n": 1}', json.dumps({"n": CUT}), "whole"]
    # Some clients send the messages back as they got them.
    acked = await courier.send(f"{CLOUDFLARE}/orders/messages/ack", {"acks": pulled["result"]["messages"]})
    assert acked["result"] == {"ackCount": 3, "retryCount": 0}


async def test_attributes_and_properties_come_back_in_every_dialect(courier: Courier) -> None:
    notes = {"note": CUT, CUT: "named", "mark": "\ufdd0d83d", "n": 1}
    await courier.send(f"{NATIVE}/orders/messages", {"body": "x", "attributes": notes})
    assert (await courier.browse())["attributes"] == notes
    assert {name: (await courier.consume())["properties"][name] for name in notes} == notes
    assert (await courier.pull())["metadata"] | {"note": CUT, CUT: "named", "n": "1"} == (await courier.pull())[
        "metadata"
    ]
    await courier.send(f"{NATIVE}/orders/purge", {})
    order = {"body": "x", "properties": notes, "headers": {"custom": CUT}}
    await courier.send(f"{ANYPOINT}/orders/messages/m-1", order, method="PUT")
    consumed = await courier.consume()
    assert {name: consumed["properties"][name] for name in notes} == notes
    assert consumed["headers"]["custom"] == CUT


async def test_the_journal_shows_attributes_as_they_were_sent(courier: Courier) -> None:
    await courier.send(f"{NATIVE}/orders/messages", {"body": "x", "attributes": {"note": CUT}})
    response = await courier.app.get("/courier/v1/journal/events?from=0")
    (sent,) = [one for one in json.loads(response.body)["events"] if one["kind"] == "sent"]
    assert sent["detail"]["attributes"] == {"note": CUT}


@pytest.mark.parametrize("field", ["id", "group", "dedup_id", "content_type"])
async def test_what_messages_are_found_by_is_made_of_whole_characters(courier: Courier, field: str) -> None:
    body = json.dumps({"body": "x", field: CUT}).encode()
    response = await courier.app.request("POST", f"{NATIVE}/orders/messages", body=body)
    assert (response.status, response.json()["field"]) == (400, field)
    assert "half of a surrogate pair" in response.json()["detail"]


@pytest.mark.parametrize("header", ["messageId", "messageGroupId"])
async def test_anypoint_headers_that_messages_are_found_by_are_too(courier: Courier, header: str) -> None:
    body = json.dumps([{"headers": {"messageId": "m-1", header: CUT}, "body": "x"}]).encode()
    response = await courier.app.request("PUT", f"{ANYPOINT}/orders/messages", body=body)
    assert b"half of a surrogate pair" in response.body


@pytest.mark.parametrize(
    ("path", "order"),
    [
        (NATIVE, {"name": CUT}),
        (CLOUDFLARE, {"queue_name": CUT}),
        (f"{CLOUDFLARE}/orders/consumers", {"type": "worker", "script_name": CUT}),
        ("/client/v4/graphql", {"query": "{ viewer { __typename } }", "variables": {"a": CUT}}),
    ],
)
async def test_where_no_message_is_a_half_is_refused_as_what_it_is(courier: Courier, path: str, order: Any) -> None:
    response = await courier.app.request("POST", path, body=json.dumps(order).encode())
    assert response.status == 400
    assert b"the body holds half of a surrogate pair; send whole characters" in response.body


async def test_a_queue_with_a_schema_takes_half_a_character_too(courier: Courier) -> None:
    schema = {"name": {"type": "string", "pattern": "^cut", "max": 10}}
    options: dict[str, Any] = {"headers": DISCUE, "token": None}
    made = await courier.send("/v1/queues", {"name": "checked", "schema": schema}, **options)
    data = json.dumps({"name": CUT})
    added = await courier.send(f"/v1/queues/{made['queue']['id']}/messages", {"data": data}, **options)
    courier.queue_id = made["queue"]["id"]
    assert (await courier.get(added["message"]["id"]))["data"] == data


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(VALUES.filter(lambda value: not isinstance(value, str)), TEXT), min_size=1, max_size=10))
def test_every_json_value_and_every_text_comes_back_equal(examples: list[tuple[Any, str]]) -> None:
    async def check() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with opened(Path(folder)) as courier:
                for value, text in examples:
                    await comes_back(courier, value, text)

    asyncio.run(check())


async def comes_back(courier: Courier, value: Any, text: str) -> None:
    whole = json.loads(json.dumps(text))
    await courier.send(f"{CLOUDFLARE}/orders/messages", {"body": value})
    assert json.loads((await courier.pull())["body"]) == json.loads(json.dumps(value))
    await courier.send(f"{NATIVE}/orders/purge", {})
    await courier.send(f"{NATIVE}/orders/messages", {"body": text, "attributes": {"text": text}})
    message = await courier.receive()
    assert (message["body"], message["attributes"]) == (whole, {"text": whole})
    assert (await courier.consume())["body"] == whole
    await courier.send(f"{NATIVE}/orders/purge", {})
