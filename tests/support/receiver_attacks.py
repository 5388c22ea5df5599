"""Every phase of a delivery with receivers that attack it, and a process that runs all of them, each on its own port.

Run as a program, it prints the ports as one line of JSON, and a line of tallies for each line that it reads.
"""

import asyncio
import contextlib
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.support.hostile_receiver import (
    CHUNKED,
    OK,
    Attack,
    Attacker,
    attacking,
    deaf,
    dripping,
    flooding,
    flooding_at_once,
    silent,
)
from tests.support.server import TLS

BODY_OK = CHUNKED + b"2\r\nok\r\n"

HEADS: dict[str, Attack] = {
    "head: garbage": flooding(b"", b"\x00\xff"),
    "head: a status line without end": flooding(b"HTTP/1.1 200 ", b"O"),
    "head: a header name without end": flooding(OK, b"x"),
    "head: a header value without end": flooding(OK + b"X: ", b"y"),
    "head: headers without end": flooding(OK, b"X: y\r\n"),
    "head: empty headers": flooding(OK, b"a:\r\n"),
    "head: interim responses": flooding(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "head: interim headers": flooding(b"", b"HTTP/1.1 103 Early Hints\r\n" + b"Link: x\r\n" * 1_000 + b"\r\n"),
    "head: blank lines": flooding(b"", b"\r\n"),
}
"""Floods that leave no response: the attempt has failed."""

TAILS: dict[str, Attack] = {
    "body: by length": flooding(OK + b"Content-Length: 99999999999\r\n\r\n", b"x"),
    "body: until the end": flooding(OK + b"\r\n", b"x"),
    "chunks: large ones": flooding(CHUNKED, b"400\r\n" + b"x" * 1024 + b"\r\n"),
    "chunks: tiny ones": flooding(CHUNKED, b"1\r\nx\r\n"),
    "chunks: one without end": flooding(CHUNKED + b"fffffffffff\r\n", b"x"),
    "chunks: an extension without end": flooding(CHUNKED + b"1;", b"x"),
    "chunks: long extensions": flooding(CHUNKED, b"1;" + b"y" * 4_000 + b"\r\nx\r\n"),
    "chunks: a size without end": flooding(CHUNKED, b"0"),
    "trailers: many": flooding(BODY_OK + b"0\r\n", b"a:b\r\n"),
    "trailers: a name without end": flooding(BODY_OK + b"0\r\n", b"y"),
    "trailers: a value without end": flooding(BODY_OK + b"0\r\nX: ", b"y"),
    "trailers: none that HTTP knows": flooding(BODY_OK + b"0\r\n", b"\x00"),
    "pipelining: a second response": flooding(OK + b"Content-Length: 2\r\n\r\nok", OK + b"Content-Length: 2\r\n\r\nno"),
}
"""Floods after a status: the message is delivered."""

DRIPS: dict[str, Attack] = {
    "drip: nothing": silent,
    "drip: a status line": dripping(b"HTTP/1.1 200 ", b"O"),
    "drip: a header value": dripping(OK + b"X: ", b"y"),
    "drip: interim responses": dripping(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "drip: a body": dripping(OK + b"Content-Length: 99999\r\n\r\n", b"x"),
    "drip: a chunk extension": dripping(CHUNKED + b"1;", b"x"),
}
"""Slow ones that never come to a response."""

SLOW_TAILS: dict[str, Attack] = {
    "drip: chunks": dripping(CHUNKED, b"1\r\nx\r\n" * 2),
    "drip: a trailer's name": dripping(BODY_OK + b"0\r\n", b"y"),
    "drip: a trailer's value": dripping(BODY_OK + b"0\r\nX: ", b"y"),
    "drip: trailers": dripping(BODY_OK + b"0\r\n", b"a:b\r\n"),
}
"""Slow ones whose status counts before their time is over: the message is delivered."""
NOISE, SILENCE = "handshake: noise", "handshake: silence"
ENCRYPTED = (
    "body: until the end",
    "chunks: an extension without end",
    "trailers: many",
    "trailers: a value without end",
)
"""Which of TAILS are tried over TLS too."""
DEAF = "request: not read"
FINE = "fine"

PLAIN: dict[str, Attack] = HEADS | TAILS | DRIPS | SLOW_TAILS | {
    NOISE: flooding_at_once,
    SILENCE: silent,
    DEAF: deaf,
    FINE: flooding(OK + b"Content-Length: 2\r\n\r\nok", b""),
}  # fmt: skip


class Tally(NamedTuple):
    """What a receiver has done so far."""

    connections: int
    open: int
    requests: int
    written: int


class Receivers:
    """The receivers in their own process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._ports: dict[str, int] = json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def url(self, name: str) -> str:
        """Where to deliver to; a handshake needs someone who begins one."""
        scheme = "https" if name.startswith(("handshake:", "tls:")) else "http"
        return f"{scheme}://127.0.0.1:{self._ports[name]}/hook"

    def tally(self, name: str) -> Tally:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Tally(*json.loads(self._line())[name])


@contextlib.contextmanager
def receivers() -> Iterator[Receivers]:
    command = [sys.executable, "-m", "tests.support.receiver_attacks"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Receivers(process)
        finally:
            process.kill()


async def _serve() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    loop, lines = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with contextlib.AsyncExitStack() as stack:
        open_ones = {name: await stack.enter_async_context(attacking(attack)) for name, attack in PLAIN.items()}
        for name in ENCRYPTED:
            open_ones[f"tls: {name}"] = await stack.enter_async_context(attacking(TAILS[name], tls=context))
        _print({name: attacker.port for name, attacker in open_ones.items()})
        while await lines.readline():
            _print({name: _tally(attacker) for name, attacker in open_ones.items()})


def _tally(attacker: Attacker) -> Tally:
    return Tally(attacker.connection_count, attacker.open_count, attacker.request_count, attacker.written)


def _print(facts: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve())
