"""One queue, three dialects: what goes in through any of them comes out of every other, whole."""

import base64
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import HOUR, MINUTE
from tests.support.anypoint import AnypointCaller, good
from tests.support.cloudflare import Account, Queue
from tests.support.inprocess import InProcess, courier_app
from tests.support.native import Tenant

pytestmark = pytest.mark.every_engine

JSON = b'{"a":[1,"\xc3\xa9"]}'
TEXT = "héllo".encode()
BINARY = b"\x00\xff\x10"

TYPES = {"text": TEXT, "json": JSON, "binary": BINARY}


class Taken:
    """A message as one dialect showed it, reduced to what all of them know."""

    def __init__(self, body: bytes, kind: str, attempt: int, key: Any) -> None:
        self.body = body
        self.kind = kind
        self.attempt = attempt
        self.key = key


class Way(Protocol):
    """One dialect's way into and out of the queue `orders`."""

    async def create(self) -> None: ...

    async def send(self, kind: str) -> None: ...

    async def take(self) -> Taken: ...

    async def ack(self, taken: Taken) -> None: ...

    async def give_back(self, taken: Taken) -> None: ...


def kind_of(content_type: str) -> str:
    essence = content_type.partition(";")[0]
    return {"text/plain": "text", "application/json": "json", "application/octet-stream": "binary"}[essence]


class AnypointWay:
    """A publisher of JSON says so with the property `contentType`; bytes are not Anypoint's to send."""

    def __init__(self, app: InProcess) -> None:
        self.mq = AnypointCaller(app)

    async def create(self) -> None:
        await self.mq.queue("orders")

    async def send(self, kind: str) -> None:
        properties = {"json": {"contentType": "application/json"}}.get(kind, {})
        response = await self.mq.publish("orders", "m-1", TYPES[kind].decode(), properties=properties)
        assert response.status == 201

    async def take(self) -> Taken:
        [message] = await self.mq.consume("orders")
        properties = message["properties"]
        body = message["body"].encode()
        if properties.get("contentTransferEncoding") == "base64":
            body = base64.b64decode(body)
        kind = kind_of(properties.get("contentType", "text/plain"))
        return Taken(body, kind, int(message["headers"]["deliveryCount"]), message)

    async def ack(self, taken: Taken) -> None:
        assert (await self.mq.ack("orders", taken.key)).status == 200

    async def give_back(self, taken: Taken) -> None:
        assert (await self.mq.nack("orders", taken.key)).status == 200


class CloudflareWay:
    def __init__(self, app: InProcess) -> None:
        self.account = Account(app)
        self.queue: Queue | None = None

    async def _queue(self) -> Queue:
        if self.queue is None:
            [made] = await self.account.result("GET", "/queues")
            self.queue = Queue(self.account, made["queue_id"], made["queue_name"])
            await self.queue.consume()
        return self.queue

    async def create(self) -> None:
        await self.account.queue("orders", pull=False)

    async def send(self, kind: str) -> None:
        queue = await self._queue()
        match kind:
            case "text":
                await queue.push(TEXT.decode(), content_type="text")
            case "json":
                await queue.push({"a": [1, "é"]}, content_type="json")
            case "binary":
                await queue.push(base64.b64encode(BINARY).decode(), content_type="bytes")

    async def take(self) -> Taken:
        message = await (await self._queue()).pull_one()
        word = message["metadata"]["CF-Content-Type"]
        body = base64.b64decode(message["body"]) if word == "bytes" else message["body"].encode()
        return Taken(body, {"bytes": "binary"}.get(word, word), message["attempts"], message["lease_id"])

    async def ack(self, taken: Taken) -> None:
        assert (await (await self._queue()).ack(taken.key))["ackCount"] == 1

    async def give_back(self, taken: Taken) -> None:
        assert (await (await self._queue()).retry(taken.key))["retryCount"] == 1


class NativeWay:
    def __init__(self, app: InProcess) -> None:
        self.tenant = Tenant(app)

    async def create(self) -> None:
        await self.tenant.queue("orders")

    async def send(self, kind: str) -> None:
        orders: dict[str, dict[str, Any]] = {
            "text": {"body": TEXT.decode()},
            "json": {"json": {"a": [1, "é"]}},
            "binary": {"body_base64": base64.b64encode(BINARY).decode()},
        }
        await self.tenant.ask("POST", "/queues/orders/messages", orders[kind])

    async def take(self) -> Taken:
        [lease] = (await self.tenant.ask("POST", "/queues/orders/receive", {}))["leases"]
        message = lease["message"]
        body = message["body"].encode() if "body" in message else base64.b64decode(message["body_base64"])
        return Taken(body, kind_of(message["content_type"]), message["attempts"], lease["receipt"])

    async def ack(self, taken: Taken) -> None:
        await self.tenant.ask("POST", "/queues/orders/ack", {"receipt": taken.key})

    async def give_back(self, taken: Taken) -> None:
        await self.tenant.ask("POST", "/queues/orders/release", {"receipt": taken.key})


WAYS: dict[str, Callable[[InProcess], Way]] = {
    "anypoint": AnypointWay,
    "cloudflare": CloudflareWay,
    "native": NativeWay,
}
DIRECTIONS = list(itertools.permutations(WAYS, 2))


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[InProcess]:
    async with courier_app(tmp_path, clock=FakeClock()) as app:
        yield app


@pytest.mark.parametrize("creator", WAYS)
@pytest.mark.parametrize(("sender", "receiver"), DIRECTIONS)
async def test_a_message_crosses_whole_in_every_direction(
    app: InProcess, creator: str, sender: str, receiver: str
) -> None:
    await WAYS[creator](app).create()
    source, target = WAYS[sender](app), WAYS[receiver](app)
    for kind in TYPES if sender != "anypoint" else ("text", "json"):
        await source.send(kind)
        taken = await target.take()
        assert (taken.kind, taken.body, taken.attempt) == (kind, TYPES[kind], 1)
        await target.give_back(taken)
        taken = await source.take()
        assert (taken.kind, taken.body, taken.attempt) == (kind, TYPES[kind], 2)
        await source.give_back(taken)
        taken = await target.take()
        await target.ack(taken)
    counters = await app.services.broker.counters(app.services.catalog.queue("default", "orders"))
    assert counters.total_count == 0


@pytest.mark.parametrize(("holder", "other"), DIRECTIONS)
async def test_what_one_dialect_holds_the_others_do_not_see(app: InProcess, holder: str, other: str) -> None:
    await NativeWay(app).create()
    await NativeWay(app).send("text")
    first, second = WAYS[holder](app), WAYS[other](app)
    taken = await first.take()
    with pytest.raises(ValueError, match="not enough values"):
        await second.take()
    await first.give_back(taken)
    assert (await second.take()).attempt == 2


@pytest.mark.parametrize(("holder", "other"), DIRECTIONS)
async def test_a_limit_of_leases_is_one_for_all_dialects(app: InProcess, holder: str, other: str) -> None:
    native = NativeWay(app)
    await native.tenant.queue("orders", max_leased=1)
    await native.send("text")
    await native.send("text")
    first, second = WAYS[holder](app), WAYS[other](app)
    taken = await first.take()
    with pytest.raises(ValueError, match="not enough values"):
        await second.take()
    await first.ack(taken)
    assert (await second.take()).attempt == 1
    settings = (await native.tenant.ask("GET", "/queues/orders"))["settings"]
    assert settings["max_leased"] == 1  # a consumer that another dialect has set up leaves it as it is


async def test_attributes_keep_their_types_between_native_and_anypoint(app: InProcess) -> None:
    attributes = {"text": "5", "whole": 5, "part": 5.5, "yes": True}
    mq, native = AnypointCaller(app), Tenant(app)
    await mq.queue("orders")
    await native.ask("POST", "/queues/orders/messages", {"body": "x", "attributes": attributes})
    [message] = await mq.consume("orders")
    assert message["properties"] == attributes | {"contentType": "text/plain; charset=utf-8"}
    await mq.publish("orders", "m-1", properties=attributes, headers={"messageGroupId": "g", "ttl": HOUR})
    [lease] = (await native.ask("POST", "/queues/orders/receive", {}))["leases"]
    assert lease["message"]["attributes"] == attributes
    assert (lease["message"]["id"], lease["message"]["group"]) == ("m-1", "g")
    assert lease["message"]["discard_at"] == app.clock.now() + HOUR


async def test_a_queues_settings_are_the_same_in_both_tongues(app: InProcess) -> None:
    mq, native = AnypointCaller(app), Tenant(app)
    await mq.queue("failed")
    await mq.queue("orders", defaultTtl=HOUR, defaultLockTtl=MINUTE, defaultDeliveryDelay=5, deadLetterQueueId="failed")
    settings = (await native.ask("GET", "/queues/orders"))["settings"]
    assert (
        settings.items()
        >= {
            "retention_ms": HOUR,
            "lease_ms": MINUTE,
            "delay_ms": 5,
            "dead_letter_queue": "failed",
            "max_attempts": 10,
        }.items()
    )
    await native.ask("PATCH", "/queues/orders", {"settings": {"lease_ms": 7, "max_attempts": 3}})
    told = good(await mq.admin("GET", "/destinations/queues/orders"))
    assert (told["defaultLockTtl"], told["maxDeliveries"]) == (7, 3)


async def test_a_setting_that_a_dialect_does_not_know_outlives_a_change_there(app: InProcess) -> None:
    mq, native = AnypointCaller(app), Tenant(app)
    await mq.queue("orders")
    await native.ask("PATCH", "/queues/orders", {"settings": {"max_leased": 3}})
    await mq.queue("orders", defaultTtl=HOUR)
    settings = (await native.ask("GET", "/queues/orders"))["settings"]
    assert (settings["retention_ms"], settings["max_leased"]) == (HOUR, 3)


async def test_an_exchange_of_one_tongue_is_published_to_in_the_other(app: InProcess) -> None:
    mq, native = AnypointCaller(app), Tenant(app)
    await mq.queue("orders")
    await mq.exchange("news", "orders")
    rule = {"propertyName": "n", "propertyType": "NUMERIC", "matcherType": "GT", "value": 1}
    assert (await mq.rule("news", "orders", rule)).status == 201
    for n in (1, 2):
        await native.ask("POST", "/exchanges/news/messages", {"body": str(n), "attributes": {"n": n}})
    assert [message["body"] for message in await mq.consume("orders", 10)] == ["2"]


async def test_a_trace_crosses_from_one_to_the_other(app: InProcess) -> None:
    mq, native = AnypointCaller(app), Tenant(app)
    await mq.queue("orders")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await mq.broker("PUT", "orders", "/m-1", json={"body": ""}, headers={"traceparent": trace})
    [lease] = (await native.ask("POST", "/queues/orders/receive", {}))["leases"]
    assert lease["message"]["trace"] == trace
    await native.ask("POST", "/queues/orders/messages", {"body": ""}, headers={"traceparent": trace})
    [message] = await mq.consume("orders")
    assert message["headers"]["traceparent"] == trace
