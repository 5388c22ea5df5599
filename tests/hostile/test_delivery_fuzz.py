"""Bytes that a receiver might answer, mutated without end: every one is a response or a failed attempt, nothing else.

The suite spends a few seconds on it; COURIER_FUZZ_SECONDS makes that longer, COURIER_FUZZ_SEED repeats a run.
"""

import asyncio
import contextlib
import ipaddress
import os
import random
import time
from collections.abc import Callable

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import ListenerSettings
from couriermq.delivery.authorization import Authorizer
from couriermq.delivery.client import Client
from couriermq.delivery.guard import Guard
from couriermq.delivery.model import Answer
from couriermq.delivery.resolving import SystemResolver
from couriermq.delivery.response import BODY_BYTES, RequestFailed, Response, ResponseReader
from couriermq.delivery.schedule import verdict
from tests.support.hostile_receiver import Attacker, attacking, resident_bytes

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("COURIER_FUZZ_SECONDS", "6")) / 2
SEED = int(os.environ.get("COURIER_FUZZ_SEED", "20"))
GROWTH_BYTES = 32 * 1024 * 1024
AT_ONCE = 16

SAMPLES = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 503 Down\r\nRetry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\nConnection: close\r\n\r\ngone",
    b"HTTP/1.0 410 Gone\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 45\r\n\r\n"
    b'{"access_token": "t0ken", "expires_in": 3600}',
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
]
WORDS = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\x00",
    b"\xff\xfe",
    b"0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"-1",
    b"1e308",
    b"NaN",
    b"Infinity",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"HTTP/1.1 ",
    b"99999999999999999999",
    b"Retry-After: ",
    b":",
    b";",
    b" ",
    b"\t",
    b'"',
    b"{",
    b"[" * 100,
    b"9" * 30,
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"Mon, 01 Jan 0001 00:00:00 +9999",
    b"\xe2\x80\xa6",
]

Mutation = Callable[[random.Random, bytearray], None]


def _flip(dice: random.Random, data: bytearray) -> None:
    if data:
        data[dice.randrange(len(data))] = dice.randrange(256)


def _insert(dice: random.Random, data: bytearray) -> None:
    place = dice.randint(0, len(data))
    data[place:place] = dice.choice(WORDS) * dice.choice((1, 1, 1, 2, 50))


def _cut(dice: random.Random, data: bytearray) -> None:
    start = dice.randint(0, len(data))
    del data[start : start + dice.choice((1, 2, 10, 100))]


def _repeat(dice: random.Random, data: bytearray) -> None:
    start = dice.randint(0, len(data))
    piece = data[start : start + dice.choice((1, 4, 16, 64))]
    data[start:start] = piece * dice.choice((1, 2, 100, 3_000))


def _splice(dice: random.Random, data: bytearray) -> None:
    other = dice.choice(SAMPLES)
    data[dice.randint(0, len(data)) :] = other[dice.randint(0, len(other)) :]


MUTATIONS: tuple[Mutation, ...] = (_flip, _insert, _cut, _repeat, _splice)


def mutated(dice: random.Random) -> bytes:
    data = bytearray(dice.choice(SAMPLES))
    for _ in range(dice.choice((1, 1, 2, 3, 8))):
        dice.choice(MUTATIONS)(dice, data)
    return bytes(data)


def read(dice: random.Random, data: bytes) -> Response | RequestFailed | None:
    """The response, fed in pieces of any size, or why it is none; None where more was expected."""
    reader, position = ResponseReader(), 0
    try:
        while position < len(data):
            size = dice.choice((1, 7, 100, 10_000, len(data)))
            response = reader.feed(data[position : position + size])
            if response is not None:
                return response
            position += size
        return reader.end() if dice.random() < 0.5 else None
    except RequestFailed as failure:
        return failure


def use(response: Response, authorizer: Authorizer) -> None:
    """All that is done with a response: none of it may raise, but for a token that is none."""
    assert 100 <= response.status <= 999
    assert len(response.body) <= BODY_BYTES + 1
    answer = Answer(status=response.status, retry_after=response.retry_after)
    verdict(answer, ListenerSettings(), attempt=1, now=1_700_000_000_000, dice=0.5)
    with contextlib.suppress(RequestFailed):
        authorizer._read(200, response.body)


def test_whatever_a_receiver_answers_is_a_response_or_a_failure() -> None:
    dice, guard = random.Random(SEED), Guard(SystemResolver(), [])
    authorizer = Authorizer(Client(guard), guard, FakeClock())
    end, count, before = time.monotonic() + SECONDS, 0, 0
    while time.monotonic() < end or count < 1_000:
        data = mutated(dice)
        result = read(dice, data)
        if isinstance(result, Response):
            use(result, authorizer)
        count += 1
        if count == 500:
            before = resident_bytes()
    assert resident_bytes() - before < GROWTH_BYTES, f"seed {SEED}, {count} responses"


async def test_whatever_comes_over_a_connection_ends_the_request(caplog: pytest.LogCaptureFixture) -> None:
    dice = random.Random(SEED)
    guard = Guard(SystemResolver(), [ipaddress.ip_network("127.0.0.0/8")])
    client = Client(guard)

    async def answer(attacker: Attacker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One mutated response a request; now and then the connection stays open for the next."""
        while not writer.is_closing():
            await attacker.read_request(reader)
            await attacker.write(writer, mutated(dice))
            if dice.random() < 0.7:
                return

    async with attacking(answer) as attacker:
        target = guard.check_url(attacker.url)
        head = f"POST / HTTP/1.1\r\nHost: {target.authority}\r\nContent-Length: 0\r\n\r\n".encode()
        end, count, before = time.monotonic() + SECONDS, 0, 0
        while time.monotonic() < end or count < 100:
            exchanges = (client.exchange(target, head, timeout_ms=100) for _ in range(AT_ONCE))
            for one in await asyncio.gather(*exchanges):
                assert (one.status is None) == (one.error is not None)
            count += 1
            if count == 20:
                before = resident_bytes()
    client.close()
    assert resident_bytes() - before < GROWTH_BYTES, f"seed {SEED}, {count} rounds"
    assert [record for record in caplog.records if record.exc_info or record.levelname == "ERROR"] == []
