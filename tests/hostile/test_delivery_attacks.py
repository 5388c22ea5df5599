"""Receivers that attack Courier, one test for each phase of a delivery: memory and event loop stay within bounds.

A flood is 100 MiB or as much as Courier reads of it, whichever is less; a drip lasts until Courier gives up.
"""

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.clock import FakeClock
from couriermq.delivery import Outcome
from couriermq.delivery.client import Client
from couriermq.delivery.guard import Guard
from couriermq.delivery.resolving import SystemResolver
from couriermq.delivery.response import HEAD_BYTES, TAIL_BYTES
from tests.delivery.conftest import COURIER, Post
from tests.support.eventually import eventually
from tests.support.hostile_receiver import (
    CHUNKED,
    OK,
    PIECE_BYTES,
    Attack,
    Watch,
    attacking,
    deaf,
    dripping,
    flooding,
    flooding_at_once,
    silent,
    watching,
)
from tests.support.inprocess import courier_app

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
CONNECTION_BYTES = 32 * MIB
TOTAL_BYTES = 256 * MIB
STALL_SECONDS = 1.0
"""What a busy machine needs; the attacks that this guards against made it tens of seconds."""
CONNECTIONS = 16
SOCKET_BYTES = 8 * MIB
"""What the buffers of the system hold of a flood that nobody reads."""
TLS = Path(__file__).parents[1] / "support" / "tls"

HEADS: dict[str, Attack] = {
    "garbage": flooding(b"", b"\x00\xff"),
    "status line": flooding(b"HTTP/1.1 200 ", b"O"),
    "header name": flooding(OK, b"x"),
    "header value": flooding(OK + b"X: ", b"y"),
    "headers": flooding(OK, b"X: y\r\n"),
    "empty headers": flooding(OK, b"a:\r\n"),
    "interim responses": flooding(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "interim headers": flooding(b"", b"HTTP/1.1 103 Early Hints\r\n" + b"Link: x\r\n" * 1_000 + b"\r\n"),
    "blank lines": flooding(b"", b"\r\n"),
}
TAILS: dict[str, Attack] = {
    "body by length": flooding(OK + b"Content-Length: 99999999999\r\n\r\n", b"x"),
    "body until the end": flooding(OK + b"\r\n", b"x"),
    "chunks": flooding(CHUNKED, b"400\r\n" + b"x" * 1024 + b"\r\n"),
    "tiny chunks": flooding(CHUNKED, b"1\r\nx\r\n"),
    "one chunk": flooding(CHUNKED + b"fffffffffff\r\n", b"x"),
    "chunk extension": flooding(CHUNKED + b"1;", b"x"),
    "chunk extensions": flooding(CHUNKED, b"1;" + b"y" * 4_000 + b"\r\nx\r\n"),
    "chunk size": flooding(CHUNKED, b"0"),
    "trailers": flooding(CHUNKED + b"2\r\nok\r\n0\r\n", b"a:b\r\n"),
    "trailer value": flooding(CHUNKED + b"2\r\nok\r\n0\r\nX: ", b"y"),
    "trailers that are none": flooding(CHUNKED + b"2\r\nok\r\n0\r\n", b"\x00"),
    "second response": flooding(OK + b"Content-Length: 2\r\n\r\nok", OK + b"Content-Length: 2\r\n\r\nno"),
}
DRIPS: dict[str, Attack] = {
    "nothing": silent,
    "head": dripping(b"", b"H"),
    "header": dripping(OK + b"X: ", b"y"),
    "interim responses": dripping(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "body": dripping(OK + b"Content-Length: 99999\r\n\r\n", b"x"),
    "chunk extension": dripping(CHUNKED + b"1;", b"x"),
}


@pytest.fixture
async def post(tmp_path: Path) -> AsyncIterator[Post]:
    async with courier_app(tmp_path, clock=FakeClock(), **COURIER) as app:
        yield Post(app)


def check(watch: Watch) -> None:
    assert watch.growth_bytes < min(CONNECTIONS * CONNECTION_BYTES, TOTAL_BYTES)
    assert watch.longest_stall_seconds < STALL_SECONDS


async def outcomes(post: Post, url: str, *, count: int, timeout_ms: int = 5_000) -> list[Outcome]:
    """What becomes of messages that are delivered at the same time."""
    queue = await post.queue()
    listener = await post.listen(queue, url, concurrency=count, timeout_ms=timeout_ms)
    await post.send(queue, *[b"hello"] * count)
    return [line.verdict for line in await post.attempts(listener, count)]


@pytest.mark.parametrize("phase", HEADS)
async def test_a_head_without_end_is_a_failed_attempt(post: Post, phase: str) -> None:
    async with attacking(HEADS[phase]) as attacker, watching() as watch:
        verdicts = await outcomes(post, attacker.url, count=CONNECTIONS)
        await eventually(lambda: attacker.open_count == 0)
    assert verdicts == [Outcome.RETRY] * CONNECTIONS
    assert attacker.written < CONNECTIONS * (HEAD_BYTES + PIECE_BYTES + SOCKET_BYTES)
    check(watch)


@pytest.mark.parametrize("phase", TAILS)
async def test_a_tail_without_end_costs_nothing_and_the_message_is_delivered_once(post: Post, phase: str) -> None:
    async with attacking(TAILS[phase]) as attacker, watching() as watch:
        verdicts = await outcomes(post, attacker.url, count=CONNECTIONS)
        await eventually(lambda: attacker.open_count == 0)
    assert verdicts == [Outcome.DELIVERED] * CONNECTIONS
    assert attacker.request_count == CONNECTIONS
    assert attacker.written < CONNECTIONS * (HEAD_BYTES + TAIL_BYTES + PIECE_BYTES + SOCKET_BYTES)
    check(watch)


@pytest.mark.parametrize("phase", DRIPS)
async def test_a_response_that_drips_is_over_when_its_time_is(post: Post, phase: str) -> None:
    async with attacking(DRIPS[phase]) as attacker, watching() as watch:
        verdicts = await outcomes(post, attacker.url, count=CONNECTIONS, timeout_ms=1_000)
        await eventually(lambda: attacker.open_count == 0)
    assert verdicts == [Outcome.RETRY] * CONNECTIONS
    check(watch)


@pytest.mark.parametrize(("first", "unit"), [(b"0\r\n", b"y"), (b"0\r\nX: ", b"y"), (b"0\r\n", b"a:b\r\n")])
async def test_trailers_that_drip_are_not_waited_for(post: Post, first: bytes, unit: bytes) -> None:
    async with attacking(dripping(CHUNKED + b"2\r\nok\r\n" + first, unit)) as attacker, watching() as watch:
        verdicts = await outcomes(post, attacker.url, count=CONNECTIONS, timeout_ms=5_000)
        await eventually(lambda: attacker.open_count == 0)
    assert verdicts == [Outcome.DELIVERED] * CONNECTIONS
    assert attacker.request_count == CONNECTIONS
    check(watch)


@pytest.mark.parametrize("attack", [silent, flooding_at_once])
async def test_a_handshake_that_hangs_or_never_ends_is_a_failed_attempt(post: Post, attack: Attack) -> None:
    async with attacking(attack) as attacker, watching() as watch:
        url = attacker.url.replace("http:", "https:")
        verdicts = await outcomes(post, url, count=CONNECTIONS, timeout_ms=1_500)
        await eventually(lambda: attacker.open_count == 0)
    assert verdicts == [Outcome.RETRY] * CONNECTIONS
    check(watch)


@pytest.mark.parametrize("phase", ["trailers", "trailer value", "chunk extension", "body until the end"])
async def test_the_same_bounds_hold_over_tls(phase: str) -> None:
    serving, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    serving.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    trusting.load_verify_locations(TLS / "cert.pem")
    guard = Guard(SystemResolver(), [ipaddress.ip_network("127.0.0.0/8")])
    client = Client(guard, tls=trusting)
    async with attacking(TAILS[phase], tls=serving) as attacker, watching() as watch:
        target = guard.check_url(attacker.url.replace("http:", "https:"))
        head = f"POST / HTTP/1.1\r\nHost: {target.authority}\r\nContent-Length: 0\r\n\r\n".encode()
        exchanges = [client.exchange(target, head, timeout_ms=5_000) for _ in range(CONNECTIONS)]
        answers = await asyncio.gather(*exchanges)
        await eventually(lambda: attacker.open_count == 0)
    client.close()
    assert [answer.status for answer in answers] == [200] * CONNECTIONS, answers[0].error
    check(watch)


async def test_a_receiver_that_does_not_read_holds_no_more_than_the_message(post: Post) -> None:
    async with attacking(deaf) as attacker, watching() as watch:
        queue = await post.queue()
        listener = await post.listen(queue, attacker.url, concurrency=4, timeout_ms=1_000)
        await post.send(queue, *[b"x" * 8 * MIB] * 4)
        lines = await post.attempts(listener, 4)
    assert {line.error for line in lines} == {"no answer within 1000 ms"}
    assert watch.growth_bytes < TOTAL_BYTES
    assert watch.longest_stall_seconds < STALL_SECONDS


async def test_others_get_their_messages_during_an_attack(post: Post) -> None:
    async with attacking(TAILS["trailer value"]) as attacker:
        attacked = await post.queue("attacked")
        await post.listen(attacked, attacker.url, concurrency=CONNECTIONS)
        await post.send(attacked, *[b"hello"] * 200)
        async with attacking(flooding(OK + b"Content-Length: 2\r\n\r\nok", b"")) as fine:
            queue = await post.queue("fine")
            listener = await post.listen(queue, fine.url)
            await post.send(queue, b"hello")
            await post.delivered(listener, 1)
