"""How deliveries leave the network: directly or through a proxy, and whom TLS trusts."""

import asyncio
import base64
import ssl
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

import msgspec

from couriermq.delivery.guard import Target
from couriermq.delivery.response import RequestFailed

PROXY_HEAD_BYTES = 16 * 1024


class Proxy(msgspec.Struct, frozen=True):
    """An HTTP proxy; `authorization` is the value of Proxy-Authorization, if it needs one."""

    host: str
    port: int
    authorization: str | None = None

    @property
    def lines(self) -> bytes:
        """What every request to the proxy says of ourselves."""
        return f"Proxy-Authorization: {self.authorization}\r\n".encode() if self.authorization else b""


def read_proxy(url: str) -> Proxy:
    """`http://[user:password@]host[:port]`; raises ValueError with the sentence that helps."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or parts.path not in {"", "/"} or parts.query:
        raise ValueError("a proxy is written http://host:port, or http://user:password@host:port")
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    return Proxy(parts.hostname, parts.port or 80, authorization)


def client_tls(*, ca_file: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """The system's authorities and those of a file, and a certificate for receivers that ask for one; None for the
    system's alone."""
    if ca_file is None and cert is None:
        return None
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    if cert is not None:
        context.load_cert_chain(cert, key)
    return context


def absolute_form(head: bytes, target: Target, proxy: Proxy) -> bytes:
    """A request as a proxy wants it: the whole URL in the first line."""
    method, _, rest = head.partition(b" ")
    first, line_end, others = rest.partition(b"\r\n")
    url = f"{target.scheme}://{target.authority}".encode()
    return b"%b %b%b%b%b%b" % (method, url, first, line_end, proxy.lines, others)


class Tunnel(asyncio.Protocol):
    """Asks a proxy for a connection to an address; `opened` ends when there is one."""

    def __init__(self, address: str, port: int, proxy: Proxy) -> None:
        host = f"[{address}]" if ":" in address else address
        where = f"{host}:{port}"
        self._request = f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n".encode() + proxy.lines + b"\r\n"
        self._head = b""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            if len(self._head) > PROXY_HEAD_BYTES:
                self._fail(f"the proxy's answer has a head of more than {PROXY_HEAD_BYTES} bytes")
            return
        status = self._head.partition(b" ")[2][:3]
        if not self._head.startswith(b"HTTP/1.") or not status.isdigit():
            self._fail("the proxy does not answer in HTTP")
        elif not status.startswith(b"2"):
            self._fail(f"the proxy answered {status.decode()} to CONNECT")
        elif len(self._head) > end + 4:
            self._fail("the proxy sent data before there was a connection")
        elif not self.opened.done():
            self.opened.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail("the proxy closed the connection")

    def _fail(self, reason: str) -> None:
        if not self.opened.done():
            self.opened.set_exception(RequestFailed(reason))
