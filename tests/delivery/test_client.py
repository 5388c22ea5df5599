"""The client by itself: connections that are used again, names that change, and nothing dialled that was not judged."""

import asyncio
import contextlib
import ipaddress
import resource
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from couriermq.delivery.client import Client, Withdrawn
from couriermq.delivery.guard import Guard, Network
from couriermq.delivery.model import Answer
from tests.delivery.test_guard import Names
from tests.support.eventually import eventually
from tests.support.receiver import Receiver, Request, answer, hang_up, raw, receiving

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


class Caller:
    """A client with its guard and name server."""

    def __init__(self, *names: list[str], allow: Sequence[Network] = LOOPBACK) -> None:
        self.names = Names(*(names or (["127.0.0.1"],)))
        self.guard = Guard(self.names, allow)
        self.client = Client(self.guard)

    async def post(
        self, url: str, body: bytes = b"x", *, timeout_ms: int = 5_000, may_send: Callable[[], bool] = lambda: True
    ) -> Answer:
        target = self.guard.check_url(url)
        head = f"POST {target.path} HTTP/1.1\r\nHost: {target.authority}\r\nContent-Length: {len(body)}\r\n\r\n"
        return await self.client.exchange(target, head.encode(), body, timeout_ms=timeout_ms, may_send=may_send)


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    one = Caller()
    yield one
    one.client.close()


async def test_a_connection_is_used_again(caller: Caller, receiver: Receiver) -> None:
    for _ in range(5):
        assert (await caller.post(receiver.url)).status == 200
    assert receiver.connection_count == 1


async def test_a_connection_that_the_receiver_closes_is_not(caller: Caller, receiver: Receiver) -> None:
    receiver.behave(answer(200, Connection="close"))
    for _ in range(3):
        assert (await caller.post(receiver.url)).status == 200
    assert receiver.connection_count == 3


async def test_a_kept_connection_that_has_died_costs_no_attempt(caller: Caller, receiver: Receiver) -> None:
    receiver.behave(answer(), hang_up, answer())
    await caller.post(receiver.url)
    assert (await caller.post(receiver.url)).status == 200
    assert [request.connection for request in receiver.requests] == [1, 1, 2]


async def test_a_request_that_is_withdrawn_is_not_sent_and_costs_no_connection(
    caller: Caller, receiver: Receiver
) -> None:
    for _ in range(2):
        with pytest.raises(Withdrawn):
            await caller.post(receiver.url, b"withdrawn", may_send=lambda: False)
    assert (await caller.post(receiver.url, b"sent")).status == 200
    assert receiver.bodies == [b"sent"]
    assert receiver.connection_count == 1


async def test_a_request_is_not_sent_again_once_it_is_withdrawn(caller: Caller, receiver: Receiver) -> None:
    receiver.behave(answer(), hang_up, answer())
    await caller.post(receiver.url, b"first")
    with pytest.raises(Withdrawn):
        await caller.post(receiver.url, b"second", may_send=lambda: len(receiver.requests) < 2)
    assert receiver.bodies == [b"first", b"second"]


async def test_a_new_connection_that_dies_is_a_failure(caller: Caller, receiver: Receiver) -> None:
    receiver.behave(hang_up)
    assert (await caller.post(receiver.url)).status is None
    assert len(receiver.requests) == 1


async def test_what_nobody_has_asked_for_ends_the_connection(caller: Caller, receiver: Receiver) -> None:
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    receiver.behave(raw(reply + b"HTTP/1.1 201 Evil\r\nContent-Length: 0\r\n\r\n", close=False), answer(204))
    assert (await caller.post(receiver.url)).status == 200
    assert (await caller.post(receiver.url)).status == 204
    assert receiver.connection_count == 2


async def test_a_large_body_arrives_whole(caller: Caller, receiver: Receiver) -> None:
    body = bytes(range(256)) * 20_000
    assert (await caller.post(receiver.url, body)).status == 200
    assert receiver.bodies == [body]


async def test_an_answer_before_the_request_is_read_counts(caller: Caller, receiver: Receiver) -> None:
    assert (await caller.post(receiver.url, b"x" * 100)).status == 200


async def test_a_request_that_timed_out_leaves_no_connection_behind(caller: Caller, receiver: Receiver) -> None:
    async def late(request: Request, writer: asyncio.StreamWriter) -> None:
        await eventually(lambda: len(receiver.requests) > 1)
        await answer(418)(request, writer)

    receiver.behave(late, answer(200))
    assert (await caller.post(receiver.url, timeout_ms=500)).error == "no answer within 500 ms"
    assert (await caller.post(receiver.url)).status == 200
    assert receiver.connection_count == 2


async def test_a_name_is_dialled_at_the_address_that_was_judged(receiver: Receiver) -> None:
    caller = Caller(["127.0.0.1"])
    reply = await caller.post(f"http://shop.example:{receiver.port}/hook")
    assert reply.status == 200
    assert receiver.requests[0].headers["host"] == f"shop.example:{receiver.port}"
    assert caller.names.asked == 1


async def test_a_name_that_turns_to_the_inside_is_refused_and_nothing_is_dialled(receiver: Receiver) -> None:
    caller = Caller(["203.0.113.9"], ["127.0.0.1"], allow=(ipaddress.ip_network("203.0.113.0/24"),))
    first = await caller.post(f"http://shop.example:{receiver.port}/", timeout_ms=50)
    assert first.status is None
    second = await caller.post(f"http://shop.example:{receiver.port}/")
    assert second.error == "shop.example resolves to an address that is not allowed"
    assert receiver.connection_count == 0


async def test_a_second_address_is_tried_when_the_first_does_not_answer(receiver: Receiver) -> None:
    caller = Caller(["127.0.0.2", "127.0.0.1"])
    assert (await caller.post(f"http://shop.example:{receiver.port}/")).status == 200


async def test_a_name_that_cannot_be_looked_up_is_a_failure() -> None:
    caller = Caller([])
    assert "could not be looked up" in ((await caller.post("http://shop.example/")).error or "")


async def test_https_to_one_who_does_not_speak_it_is_a_failure(caller: Caller) -> None:
    async def puzzled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(puzzled, "127.0.0.1", 0)
    reply = await caller.post(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    server.close()
    assert "TLS with 127.0.0.1 failed" in (reply.error or "")


async def test_a_certificate_that_nobody_vouches_for_is_refused(caller: Caller) -> None:
    folder = Path(__file__).parents[1] / "support" / "tls"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    reply = await caller.post(f"https://127.0.0.1:{port}/")
    server.close()
    assert "TLS with 127.0.0.1 failed" in (reply.error or "")


async def test_a_tenant_with_many_receivers_keeps_a_part_of_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (32, 32))  # 8 idle connections, 2 of one tenant
    caller = Caller(allow=LOOPBACK)
    async with contextlib.AsyncExitStack() as stack:
        receivers = [await stack.enter_async_context(receiving()) for _ in range(6)]
        for receiver in receivers:
            assert (await caller.post(receiver.url)).status == 200
        await eventually(lambda: [receiver.open_count for receiver in receivers] == [0, 0, 0, 0, 1, 1])
        caller.client.close()
