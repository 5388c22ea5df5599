"""Deliveries through a proxy, to receivers of a private authority, and to those that ask for a certificate."""

import asyncio
import contextlib
import ipaddress
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from couriermq.config import ConfigError, load
from couriermq.delivery.client import Client
from couriermq.delivery.egress import Proxy, client_tls, read_proxy
from couriermq.delivery.guard import Guard
from couriermq.delivery.model import Answer
from couriermq.server import CannotStart
from tests.delivery.conftest import COURIER, Post
from tests.delivery.test_guard import Names
from tests.support.inprocess import courier_app
from tests.support.receiver import Receiver, receiving

TLS = Path(__file__).parents[1] / "support" / "tls"
LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]


@dataclass
class ProxyServer:
    """A proxy that does as it is told, whatever the name: everything ends at this machine."""

    heads: list[str] = field(default_factory=list)
    refusal: bytes = b""
    port: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head.decode())
            if self.refusal:
                writer.write(self.refusal)
                writer.close()
                return
            method, where, _ = head.split(b"\r\n")[0].split(b" ")
            if method == b"CONNECT":
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(where.rpartition(b":")[2]))
                self.writers.append(far_writer)
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                authority, _, path = where.removeprefix(b"http://").partition(b"/")
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(authority.rpartition(b":")[2]))
                self.writers.append(far_writer)
                far_writer.write(head.replace(where, b"/" + path, 1))
            await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))
        writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


@contextlib.asynccontextmanager
async def proxying(refusal: bytes = b"") -> AsyncIterator[ProxyServer]:
    proxy = ProxyServer(refusal=refusal)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for writer in proxy.writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # the transports close at the loop's next turn


@contextlib.asynccontextmanager
async def tls_receiver(*, asks_for_certificate: bool = False) -> AsyncIterator[str]:
    """Answers 200 and hangs up."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    if asks_for_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(TLS / "cert.pem")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    finally:
        server.close()


async def post(client: Client, guard: Guard, url: str) -> Answer:
    target = guard.check_url(url)
    head = f"POST {target.path} HTTP/1.1\r\nHost: {target.authority}\r\nContent-Length: 1\r\n\r\n"
    return await client.exchange(target, head.encode(), b"x", timeout_ms=5_000)


def through(proxy: ProxyServer, *names: list[str], resolves: bool = False, ca: bool = False) -> tuple[Client, Guard]:
    guard = Guard(Names(*(names or (["127.0.0.1"],))), LOOPBACK)
    tls = client_tls(ca_file=TLS / "cert.pem" if ca else None, cert=None, key=None)
    there = Proxy("127.0.0.1", proxy.port, "Basic abc")
    return Client(guard, tls=tls, proxy=there, proxy_resolves=resolves), guard


async def test_http_to_an_address_goes_to_the_proxy_whole(receiver: Receiver) -> None:
    async with proxying() as proxy:
        client, guard = through(proxy)
        assert (await post(client, guard, receiver.url)).status == 200
        assert proxy.heads[0].startswith(f"POST http://127.0.0.1:{receiver.port}/hook HTTP/1.1\r\n")
        assert "Proxy-Authorization: Basic abc\r\n" in proxy.heads[0]
        client.close()


async def test_http_to_a_name_goes_through_a_tunnel_to_the_address_that_was_judged(receiver: Receiver) -> None:
    async with proxying() as proxy:
        client, guard = through(proxy)
        assert (await post(client, guard, f"http://shop.example:{receiver.port}/hook")).status == 200
        assert proxy.heads[0].startswith(f"CONNECT 127.0.0.1:{receiver.port} HTTP/1.1\r\n")
        assert receiver.requests[0].headers["host"] == f"shop.example:{receiver.port}"
        assert "proxy-authorization" not in receiver.requests[0].headers
        client.close()


async def test_a_proxy_that_resolves_gets_the_name(receiver: Receiver) -> None:
    async with proxying() as proxy:
        client, guard = through(proxy, [], resolves=True)
        assert (await post(client, guard, f"http://shop.example:{receiver.port}/hook")).status == 200
        assert proxy.heads[0].startswith(f"POST http://shop.example:{receiver.port}/hook HTTP/1.1\r\n")
        client.close()


async def test_https_goes_through_a_tunnel_and_is_verified_inside_it() -> None:
    async with proxying() as proxy, tls_receiver() as url:
        client, guard = through(proxy, ca=True)
        reply = await post(client, guard, url)
        assert reply.status == 200, reply.error
        assert proxy.heads[0].startswith("CONNECT 127.0.0.1:")
        stranger, guard = through(proxy)
        assert "TLS with 127.0.0.1 failed" in ((await post(stranger, guard, url)).error or "")


async def test_a_name_that_points_inside_is_not_asked_for(receiver: Receiver) -> None:
    async with proxying() as proxy:
        client, guard = through(proxy, ["10.0.0.1"])
        reply = await post(client, guard, f"http://shop.example:{receiver.port}/")
        assert reply.error == "shop.example resolves to an address that is not allowed"
        assert proxy.heads == []


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "the proxy answered 403"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\nsurprise", "before there was a connection"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000, "more than 16384 bytes"),
        (b"HTTP/1.1 200 OK\r\n", "closed the connection"),
    ],
)
async def test_a_proxy_that_refuses_is_a_failed_attempt(refusal: bytes, why: str) -> None:
    async with proxying(refusal) as proxy:
        client, guard = through(proxy)
        assert why in ((await post(client, guard, "https://shop.example/")).error or "")


async def test_a_receiver_that_asks_for_a_certificate_gets_it() -> None:
    guard = Guard(Names([]), LOOPBACK)
    ours = client_tls(ca_file=TLS / "cert.pem", cert=TLS / "cert.pem", key=TLS / "key.pem")
    none = client_tls(ca_file=TLS / "cert.pem", cert=None, key=None)
    async with tls_receiver(asks_for_certificate=True) as url:
        assert (await post(Client(guard, tls=ours), guard, url)).status == 200
        assert (await post(Client(guard, tls=none), guard, url)).status is None


async def test_the_settings_are_those_of_the_server(tmp_path: Path) -> None:
    async with proxying() as proxy, receiving() as receiver:
        settings = COURIER | {"delivery_proxy": f"http://me:pw@127.0.0.1:{proxy.port}"}
        async with courier_app(tmp_path, **settings) as app:
            there = Post(app)
            queue = await there.queue()
            listener = await there.listen(queue, receiver.url)
            await there.send(queue, b"hello")
            await there.delivered(listener, 1)
        assert "Proxy-Authorization: Basic bWU6cHc=" in proxy.heads[0]


@pytest.mark.parametrize("url", ["proxy:3128", "https://proxy:3128", "http://", "http://proxy/path", "http://proxy:x"])
def test_what_is_no_proxy_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_proxy(url)


@pytest.mark.parametrize(
    "settings",
    [
        {"delivery_proxy": "proxy:3128"},
        {"delivery_ca_file": Path("/no/such")},
        {"delivery_client_cert": TLS / "key.pem"},
    ],
)
async def test_what_cannot_be_used_is_said_at_the_start(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(CannotStart, match="delivery_"):
        async with courier_app(tmp_path, **settings):
            pass


def test_a_key_needs_its_certificate() -> None:
    with pytest.raises(ConfigError, match="delivery_client_cert"):
        load(environ={"COURIER_DELIVERY_CLIENT_KEY": "/key.pem"})
