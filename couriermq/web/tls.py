"""TLS: which versions and suites are spoken, certificates that are renewed while the server runs, and handshakes.

asyncio's own server would tell us of a connection only after its handshake. Here a connection counts, and has its
deadline, from the moment it is accepted.
"""

import asyncio
import contextlib
import errno
import logging
import math
import socket
import ssl
from collections import deque
from pathlib import Path

from couriermq.web.protocol import Connection
from couriermq.web.state import ServerState

SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL:!PSK"
"""For TLS 1.2: ephemeral keys and authenticated encryption only. All suites of TLS 1.3 are of this kind."""
HANDSHAKES_AT_ONCE = 4
"""How many handshakes begin in one turn of the event loop: each costs a signature, and others wait for the turn."""
ACCEPTED_AT_ONCE = 64
PAUSE_SECONDS = 0.5
CLOSE_SECONDS = 2.0
"""How long a client may take to confirm the end of the encrypted connection."""

_NO_FILES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))

log = logging.getLogger("couriermq.web")


class UnusableCertificate(Exception):
    """The certificate and the key cannot be used; the text is one sentence that says why."""


def server_context(cert: Path, key: Path) -> ssl.SSLContext:
    """A context for TLS 1.2 and 1.3 with these files; raises UnusableCertificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(SUITES)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = error.strerror if isinstance(error, OSError) else error
        raise UnusableCertificate(f"{cert} and {key} cannot be used for TLS: {reason}") from error
    return context


def _no_password() -> str:
    raise ValueError("the key has a passphrase; store it without one")


class Certificates:
    """The certificate in use, replaced when its files change. Open connections keep the one they began with."""

    def __init__(self, cert: Path, key: Path) -> None:
        self._cert = cert
        self._key = key
        self._seen = self._look()
        self.context = server_context(cert, key)

    def _look(self) -> tuple[tuple[int, int, int], ...] | None:
        """What tells one version of the files from another; None while one of them is missing."""
        try:
            found = [path.stat() for path in (self._cert, self._key)]
        except OSError:
            return None
        return tuple((status.st_mtime_ns, status.st_size, status.st_ino) for status in found)

    def reload_if_changed(self) -> None:
        seen = self._look()
        if seen is not None and seen != self._seen:
            self.reload()

    def reload(self) -> None:
        """Read the files again; where they cannot be used, such as between the writing of the two, keep the old."""
        self._seen = self._look()
        try:
            self.context = server_context(self._cert, self._key)
        except UnusableCertificate as error:
            log.warning("the old certificate stays in use: %s", error)
        else:
            log.info("the certificate was read again", extra={"tls_cert": self._cert})


class Acceptor:
    """Accepts connections itself, and lets a few handshakes begin in each turn of the loop."""

    def __init__(self, state: ServerState, certificates: Certificates, listening: socket.socket) -> None:
        self._state = state
        self._certificates = certificates
        self._listening = listening
        self._waiting: deque[Handshake] = deque()
        self._loop = asyncio.get_running_loop()

    def open(self, backlog: int) -> None:
        self._listening.listen(backlog)
        self._listening.setblocking(False)
        self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._listening)
        self._listening.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                client, _ = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_FILES:
                    self._pause()
                    return
                continue  # the client has left already
            self._enqueue(client)

    def _pause(self) -> None:
        """Every file is in use. Accept nothing for a moment: the event would come again at once."""
        log.warning("no connection can be accepted: the process has too many open files")
        self._loop.remove_reader(self._listening)
        self._loop.call_later(PAUSE_SECONDS, self._go_on)

    def _go_on(self) -> None:
        if self._listening.fileno() >= 0:
            self._loop.add_reader(self._listening, self._accept)

    def _enqueue(self, client: socket.socket) -> None:
        if len(self._state.connections) >= self._state.deadlines.max_connections:
            client.close()  # to say why would cost the handshake
            return
        self._waiting.append(Handshake(self._state, client))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._begin_some)

    def _begin_some(self) -> None:
        for _ in range(min(HANDSHAKES_AT_ONCE, len(self._waiting))):
            self._waiting.popleft().begin(self._certificates.context)
        if self._waiting:
            self._loop.call_soon(self._begin_some)


class Handshake:
    """A client that is not encrypted yet. It becomes a Connection, or is dropped without a word."""

    def __init__(self, state: ServerState, client: socket.socket) -> None:
        self._state = state
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self.deadline = self._loop.time() + state.deadlines.head
        self.write_deadline = math.inf
        state.connections.add(self)

    def begin(self, context: ssl.SSLContext) -> None:
        if self in self._state.connections:
            self._task = self._loop.create_task(self._run(context))

    async def _run(self, context: ssl.SSLContext) -> None:
        def connection() -> Connection:
            return Connection(self._state, handshake=self)

        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await self._loop.connect_accepted_socket(
                connection,
                self._client,
                ssl=context,
                ssl_handshake_timeout=2 * self._state.deadlines.head,  # the sweep comes first, and counts
                ssl_shutdown_timeout=CLOSE_SECONDS,
            )
        except OSError:
            pass  # a client that speaks something else, left, or took too long: ssl.SSLError is an OSError
        finally:
            self._state.connections.discard(self)

    def expire(self, now: float) -> None:
        self.cut()

    def shutdown(self) -> None:
        self.cut()

    def cut(self) -> None:
        self._state.connections.discard(self)
        if self._task is None:
            self._client.close()
            return
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)  # the transport would wait for the client to agree
        self._task.cancel()
