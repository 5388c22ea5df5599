"""Worker consumers: batches from the queue to the bridge, and what its answers mean."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from couriermq.clock import SystemClock
from couriermq.core.consumers import ANNOTATION
from couriermq.core.errors import WorkerNotFound
from couriermq.core.hex_ids import hex_of
from couriermq.core.model import Draft, Queue, QueueSettings
from couriermq.delivery.lane import LEASE_MS
from tests.delivery.conftest import COURIER, Post
from tests.support.eventually import eventually
from tests.support.inprocess import courier_app
from tests.support.receiver import Receiver, Request, answer, hang_up, held_until

WORKERS = "/courier/v1/tenants/default/workers"
SECRET = "whsec_c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMuLi4u"

Look = Callable[[], Awaitable[Any]]


def outcome(word: str = "ok", **facts: Any) -> Any:
    """A bridge whose handler ends so."""
    return answer(200, json.dumps({"outcome": word, **facts}).encode())


def read(request: Request) -> tuple[dict[str, Any], list[bytes]]:
    """The head of a batch and the bodies behind it."""
    start = 4 + int.from_bytes(request.body[:4], "big")
    head, bodies = json.loads(request.body[4:start]), []
    for message in head["messages"]:
        bodies.append(request.body[start : start + message["size"]])
        start += message["size"]
    assert start == len(request.body)
    return head, bodies


async def consumed(post: Post, bridge: Receiver, *, settings: QueueSettings | None = None, **consumer: Any) -> Queue:
    """A queue whose worker consumer is served by the bridge."""
    facts = {"id": "c", "type": "worker", "script_name": "shop", "created_at": 0, **consumer}
    queue = await post.queue(annotations={ANNOTATION: facts}, settings=settings or QueueSettings(max_attempts=3))
    await attach(post, bridge)
    bridge.behave(outcome())
    return queue


async def attach(post: Post, bridge: Receiver) -> None:
    await post.catalog.attach_worker("default", "shop", bridge.url, secrets=(), principal="test")


async def held(post: Post, queue: Queue, count: int) -> None:
    """Until this node holds so many messages of the queue."""
    consumer = post.deliveries.consumer(queue)
    assert consumer is not None

    def look() -> int:
        lane = post.deliveries._dispatcher.lane_of(consumer)
        return 0 if lane is None else len(lane.leases)

    await eventually(look, lambda found: found == count)


async def pass_time(post: Post, queue: Queue, span_ms: int) -> None:
    """Move the clock in steps, each once every lease was extended after the one before."""
    consumer = post.deliveries.consumer(queue)
    lane = post.deliveries._dispatcher.lane_of(consumer) if consumer else None
    assert lane is not None
    for _ in range(span_ms // (LEASE_MS // 2)):
        post.clock.advance(ms=LEASE_MS // 2)
        await eventually(lambda: all(until > post.clock.now() + LEASE_MS // 2 for until in lane.leases.values()))


def count_of(post: Post, queue: Queue, name: str) -> Look:
    async def look() -> int:
        return int(getattr(await post.broker.counters(queue), name))

    return look


async def test_a_full_batch_goes_at_once(post: Post, receiver: Receiver) -> None:
    queue = await consumed(post, receiver, batch_size=2, max_wait_time_ms=60_000)
    await post.send(queue, b"one", b"two", b"three")
    (request,) = await receiver.wait(1)
    head, bodies = read(request)
    assert (head["queue"], bodies) == ("orders", [b"one", b"two"])
    first = head["messages"][0]
    assert (first["timestamp"], first["attempts"], first["contentType"]) == (post.clock.now(), 1, "text")
    await eventually(count_of(post, queue, "acked_count"), lambda count: count == 2)
    assert len(receiver.requests) == 1, "the third waits for its batch to fill"


async def test_a_batch_waits_no_longer_than_the_consumer_says(post: Post, receiver: Receiver) -> None:
    queue = await consumed(post, receiver, batch_size=10, max_wait_time_ms=3_000)
    await post.send(queue, b"one")
    await held(post, queue, 1)
    post.clock.advance(ms=2_999)
    await post.send(queue, b"two")
    await held(post, queue, 2)
    assert receiver.requests == []
    post.clock.advance(ms=1)
    (request,) = await receiver.wait(1)
    assert read(request)[1] == [b"one", b"two"]


async def test_a_message_that_waits_while_its_batch_fills_keeps_its_lease(post: Post, receiver: Receiver) -> None:
    queue = await consumed(post, receiver, batch_size=10, max_wait_time_ms=60_000)
    await post.send(queue, b"one")
    await held(post, queue, 1)
    await pass_time(post, queue, 55_000)
    post.clock.advance(ms=5_000)
    (request,) = await receiver.wait(1)
    assert [message["attempts"] for message in read(request)[0]["messages"]] == [1]


async def test_a_batch_is_bounded_in_bytes_and_a_larger_message_goes_alone(post: Post, receiver: Receiver) -> None:
    queue = await consumed(post, receiver, batch_size=100, max_wait_time_ms=0, max_concurrency=1)
    await post.send(queue, b"a" * 100_000, b"b" * 100_000, b"c" * 100_000, b"d" * 500_000, b"e")
    await eventually(count_of(post, queue, "acked_count"), lambda count: count == 5)
    assert [[len(body) for body in read(each)[1]] for each in receiver.requests] == [
        [100_000, 100_000], [100_000], [500_000], [1],
    ]  # fmt: skip


async def test_messages_of_one_id_go_in_batches_of_their_own(post: Post, receiver: Receiver) -> None:
    queue = await consumed(post, receiver, batch_size=10, max_wait_time_ms=0, max_concurrency=1)
    await post.send(queue, b"one", b"two", id="same")
    await eventually(count_of(post, queue, "acked_count"), lambda count: count == 2)
    assert [read(each)[1] for each in receiver.requests] == [[b"one"], [b"two"]]


async def test_messages_whose_ids_look_alike_to_the_worker_go_in_batches_of_their_own(
    post: Post, receiver: Receiver
) -> None:
    queue = await consumed(post, receiver, batch_size=10, max_wait_time_ms=0, max_concurrency=1)
    drafts = [Draft(body=b"one", id="chosen"), Draft(body=b"two", id=hex_of("chosen"))]
    await post.broker.send(queue, drafts, principal="test")
    await eventually(count_of(post, queue, "acked_count"), lambda count: count == 2)
    assert [read(each)[1] for each in receiver.requests] == [[b"one"], [b"two"]]


async def test_what_is_called_text_and_is_none_is_described_as_bytes(post: Post, receiver: Receiver) -> None:
    queue = await consumed(post, receiver, batch_size=3, max_wait_time_ms=60_000)
    half = "\ud83d".encode("utf-8", "surrogatepass")
    await post.send(queue, b"\xff", half, b"text")
    (request,) = await receiver.wait(1)
    assert [each["contentType"] for each in read(request)[0]["messages"]] == ["bytes", "text", "text"]


async def test_no_more_invocations_run_at_a_time_than_the_consumer_allows(post: Post, receiver: Receiver) -> None:
    queue = await consumed(post, receiver, batch_size=2, max_wait_time_ms=0, max_concurrency=3)
    go_on = asyncio.Event()
    receiver.behave(held_until(go_on, outcome()))
    await post.send(queue, *(b"%d" % number for number in range(20)))
    await receiver.wait(3)
    assert await count_of(post, queue, "leased_count")() == 6
    go_on.set()
    await eventually(count_of(post, queue, "acked_count"), lambda count: count == 20)
    assert receiver.most_at_once == 3


async def test_a_handler_that_throws_uses_up_attempts_until_the_message_is_dead(post: Post, receiver: Receiver) -> None:
    dead = await post.queue("dead")
    settings = QueueSettings(max_attempts=3, dead_letter_queue=dead.id, retry_delay_ms=5_000)
    queue = await consumed(post, receiver, settings=settings, batch_size=1)
    receiver.behave(outcome("exception"))
    await post.send(queue, b"one")
    for attempt in (1, 2, 3):
        request = (await receiver.wait(attempt))[-1]
        assert [message["attempts"] for message in read(request)[0]["messages"]] == [attempt]
        await eventually(count_of(post, queue, "leased_count"), lambda count: count == 0)
        post.clock.advance(ms=5_000)
    await eventually(count_of(post, dead, "total_count"), lambda count: count == 1)
    consumer = post.deliveries.consumer(queue)
    assert consumer is not None
    assert post.health(consumer).last_failure_error == "the handler ended with 'exception'"


async def test_a_retry_waits_for_as_long_as_the_handler_says(post: Post, receiver: Receiver) -> None:
    queue = await consumed(post, receiver, batch_size=1)
    await post.send(queue, b"one", id="a")
    receiver.behave(outcome(retryMessages=[{"msgId": hex_of("a"), "delaySeconds": 60}]), outcome())
    await receiver.wait(1)
    await eventually(count_of(post, queue, "delayed_count"), lambda count: count == 1)
    post.clock.advance(ms=60_000)
    await receiver.wait(2)
    await eventually(count_of(post, queue, "acked_count"), lambda count: count == 1)


@pytest.mark.parametrize("manner", [answer(503), answer(401), answer(404), answer(200, b"Hello World!")])
async def test_a_bridge_that_did_not_call_the_handler_uses_up_no_attempt(
    post: Post, receiver: Receiver, manner: Any
) -> None:
    queue = await consumed(post, receiver, batch_size=1)
    receiver.behave(manner, manner, manner, manner, outcome())
    await post.send(queue, b"one")
    for count in range(1, 5):
        await receiver.wait(count)
        await eventually(count_of(post, queue, "ready_count"), lambda ready: ready == 1)
        post.clock.advance(ms=8_000)  # after 1, 2, 4 and 8 seconds
    request = (await receiver.wait(5))[-1]
    assert [message["attempts"] for message in read(request)[0]["messages"]] == [1]


async def test_a_bridge_that_hangs_up_may_have_called_the_handler(post: Post, receiver: Receiver) -> None:
    queue = await consumed(post, receiver, batch_size=1)
    receiver.behave(hang_up, answer(500), outcome())
    await post.send(queue, b"one")
    requests = await receiver.wait(3)
    assert [read(each)[0]["messages"][0]["attempts"] for each in requests] == [1, 2, 3]


async def test_a_worker_that_is_attached_anew_is_tried_at_once(post: Post, receiver: Receiver) -> None:
    queue = await consumed(post, receiver, batch_size=1)
    await post.catalog.attach_worker("default", "shop", "http://127.0.0.1:9/", secrets=(), principal="test")
    await post.send(queue, b"one")
    consumer = post.deliveries.consumer(queue)
    assert consumer is not None
    await eventually(lambda: post.health(consumer).failure_count)
    post.clock.advance(ms=1)
    await attach(post, receiver)
    await receiver.wait(1)


async def test_a_long_handler_keeps_its_messages(post: Post, receiver: Receiver) -> None:
    queue, go_on = await consumed(post, receiver, batch_size=2), asyncio.Event()
    receiver.behave(held_until(go_on, outcome()))
    await post.send(queue, b"one", b"two")
    await receiver.wait(1)
    await pass_time(post, queue, 4 * LEASE_MS)
    go_on.set()
    await eventually(count_of(post, queue, "acked_count"), lambda count: count == 2)
    assert len(receiver.requests) == 1


async def test_messages_that_are_purged_meanwhile_do_not_end_the_batch(post: Post, receiver: Receiver) -> None:
    queue, go_on = await consumed(post, receiver, batch_size=2), asyncio.Event()
    receiver.behave(held_until(go_on, outcome()))
    first, _ = await post.send(queue, b"one", b"two")
    await receiver.wait(1)
    await post.broker.remove(queue, [first.seq], principal="test")
    post.clock.advance(ms=LEASE_MS // 2)
    await held(post, queue, 1)
    go_on.set()
    await eventually(count_of(post, queue, "acked_count"), lambda count: count == 1)
    assert len(receiver.requests) == 1


async def test_nothing_goes_out_while_the_queue_is_paused_or_the_worker_detached(
    post: Post, receiver: Receiver
) -> None:
    queue = await consumed(post, receiver, batch_size=1)
    paused = QueueSettings(max_attempts=3, paused=True)
    await post.catalog.change_queue(queue, settings=paused, principal="test")
    await post.send(queue, b"one")
    await asyncio.sleep(0.05)
    await post.catalog.detach_worker("default", "shop", principal="test")
    await post.catalog.change_queue(queue, settings=QueueSettings(max_attempts=3), principal="test")
    await asyncio.sleep(0.05)
    assert (receiver.requests, post.deliveries.consumer(queue)) == ([], None)
    await attach(post, receiver)
    await receiver.wait(1)


async def test_what_waited_before_the_consumer_was_made_is_delivered_too(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    await post.send(queue, b"early")
    await attach(post, receiver)
    receiver.behave(outcome())
    facts = {"id": "c", "type": "worker", "script_name": "shop", "created_at": 0, "batch_size": 1}
    await post.catalog.change_queue(queue, annotations={ANNOTATION: facts}, principal="test")
    (request,) = await receiver.wait(1)
    assert read(request)[1] == [b"early"]


async def test_a_server_that_stops_gives_back_what_it_holds(tmp_path: Path, receiver: Receiver) -> None:
    go_on = asyncio.Event()
    async with courier_app(tmp_path, clock=SystemClock(), **COURIER) as app:
        post = Post(app)
        queue = await consumed(post, receiver, batch_size=10, max_wait_time_ms=60_000)
        receiver.behave(held_until(go_on, outcome()))
        await post.send(queue, *(b"%d" % number for number in range(13)))
        await receiver.wait(1)
        await held(post, queue, 13)
        go_on.set()
    async with courier_app(tmp_path, clock=SystemClock(), **COURIER) as app:
        counters = await app.services.broker.counters(queue)
        assert (counters.acked_count, counters.total_count) == (10, 3)
        leases = await app.services.broker.receive(queue, limit=10, principal="test")
        assert {lease.message.attempts for lease in leases} <= {1}


async def test_batches_are_signed_with_the_workers_secret(tmp_path: Path, receiver: Receiver) -> None:
    async with courier_app(tmp_path, clock=SystemClock(), **COURIER) as app:
        post = Post(app)
        queue = await consumed(post, receiver, batch_size=1)
        made = await app.request("PUT", f"{WORKERS}/shop", json={"url": receiver.url})
        assert made.status == 200, made
        again = await app.request("PUT", f"{WORKERS}/shop", json={"url": receiver.url, "secret": SECRET})
        assert again.json()["secret"] == SECRET
        await post.send(queue, b"one")
        (request,) = await receiver.wait(1)
        assert request.headers["connection"] == "close"
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        content = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
        expected = "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
        assert request.headers["webhook-signature"] == expected


async def test_the_native_api_attaches_reads_lists_and_detaches(post: Post, receiver: Receiver) -> None:
    await consumed(post, receiver, batch_size=7, max_wait_time_ms=10, max_concurrency=2)
    made = (await post.app.request("PUT", f"{WORKERS}/other", json={"url": receiver.url})).json()
    assert made.pop("secret").startswith("whsec_")
    assert (made["script"], made["url"], made["consumers"]) == ("other", receiver.url, [])
    shop = (await post.app.get(f"{WORKERS}/shop")).json()
    (consumer,) = shop["consumers"]
    assert (consumer["queue"], consumer["batch_size"], consumer["max_wait_ms"], consumer["concurrency"]) == (
        "orders", 7, 10, 2,
    )  # fmt: skip
    assert (await post.app.get(WORKERS)).json() == {"workers": [made, shop], "next": None}
    again = (await post.app.request("PUT", f"{WORKERS}/other", json={"url": receiver.url + "2"})).json()
    assert "secret" not in again, "it stays what it was"
    assert (await post.app.request("DELETE", f"{WORKERS}/other")).status == 204
    assert (await post.app.request("DELETE", f"{WORKERS}/other")).json()["title"] == "No such worker"
    with pytest.raises(WorkerNotFound):
        post.catalog.worker("default", "other")


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        ({"url": "http://10.0.0.1/"}, "--delivery-allow 10.0.0.1"),
        ({"url": "ftp://shop.example/"}, "http"),
        ({"url": "https://shop.example/", "secret": "hunter2"}, "whsec_"),
        ({}, "url is missing"),
    ],
)
async def test_a_bad_attachment_is_refused(post: Post, order: Any, sentence: str) -> None:
    refusal = await post.app.request("PUT", f"{WORKERS}/shop", json=order)
    assert refusal.status == 400
    assert sentence in refusal.json()["detail"]
    assert post.catalog.workers("default") == []


async def test_messages_of_other_dialects_are_described_by_their_type(post: Post, receiver: Receiver) -> None:
    queue = await consumed(post, receiver, batch_size=4, max_wait_time_ms=0)
    types = ("application/json", "application/xml", "application/x-v8", "text/html; charset=utf-8")
    drafts = [Draft(body=b"{}", content_type=kind) for kind in types]
    await post.broker.send(queue, drafts, principal="test")
    (request,) = await receiver.wait(1)
    assert [message["contentType"] for message in read(request)[0]["messages"]] == ["json", "bytes", "v8", "text"]
