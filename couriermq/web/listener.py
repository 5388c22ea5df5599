"""The listening server: accepts connections, watches their deadlines, and stops when it is told to."""

import asyncio
import signal
import socket
from collections.abc import Callable

from couriermq.config import Settings
from couriermq.web.app import App
from couriermq.web.budget import ROOM_SECONDS, Budget
from couriermq.web.protocol import Connection
from couriermq.web.state import Deadlines, ServerState, sweep
from couriermq.web.tls import Acceptor, Certificates

BACKLOG = 2_048
TICK_SECONDS = 0.1
CERTIFICATE_TICKS = 20
"""After how many ticks the files of the certificate are looked at."""
STREAM_SECONDS = 1.0
"""How long a stopping server lets clients read on: a stream may have no end, and a client may not read at all."""


class Listener:
    """Serves until SIGTERM or SIGINT; a second signal does not wait for requests in hand. SIGHUP renews
    the certificate."""

    def __init__(
        self,
        app: App,
        settings: Settings,
        *,
        certificates: Certificates | None,
        on_start: Callable[[], None],
        on_stop: Callable[[], None],
    ) -> None:
        deadlines = Deadlines.of(settings)
        budget = Budget(settings.max_buffered_bytes, room_seconds=min(ROOM_SECONDS, deadlines.body / 2))
        self._state = ServerState(app, deadlines, budget)
        self._certificates = certificates
        self._shutdown_seconds = settings.shutdown_ms / 1_000
        self._on_start = on_start
        self._on_stop = on_stop
        self._told = asyncio.Event()
        self._hurried = False
        app.traffic.connections = self._state.connections
        app.traffic.in_hand = self._state.tasks

    async def serve(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        if self._certificates is not None:
            loop.add_signal_handler(signal.SIGHUP, self._certificates.reload)
        server = await self._open(listening)
        self._on_start()
        watching = loop.create_task(self._watch())
        try:
            await self._told.wait()
            # Receivers that wait for a message answer after the next await: by then no new request can come in.
            self._on_stop()
            server.close()
            await self._finish(loop)
        finally:
            watching.cancel()

    async def _open(self, listening: socket.socket) -> asyncio.AbstractServer | Acceptor:
        if self._certificates is None:
            loop = asyncio.get_running_loop()
            return await loop.create_server(lambda: Connection(self._state), sock=listening, backlog=BACKLOG)
        acceptor = Acceptor(self._state, self._certificates, listening)
        acceptor.open(BACKLOG)
        return acceptor

    def stop(self) -> None:
        """Stop as after a signal; the second time without waiting for requests in hand."""
        self._hurried = self._told.is_set()
        self._told.set()

    async def _watch(self) -> None:
        """Close connections whose time is over, and notice new certificates."""
        loop, ticks = asyncio.get_running_loop(), 0
        while True:
            await asyncio.sleep(TICK_SECONDS)
            sweep(self._state.connections, loop.time())
            ticks += 1
            if self._certificates is not None and ticks % CERTIFICATE_TICKS == 0:
                self._certificates.reload_if_changed()

    async def _finish(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let requests in hand finish, within bounds; then cancel the others."""
        started, connections, tasks = loop.time(), self._state.connections, self._state.tasks
        for connection in list(connections):
            connection.shutdown()
        while (connections or tasks) and not self._hurried and loop.time() < started + self._shutdown_seconds:
            await asyncio.sleep(TICK_SECONDS / 4)
            if loop.time() >= started + STREAM_SECONDS:
                for connection in list(connections):
                    connection.cut()
        unfinished = list(tasks)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)


def bind(host: str, port: int) -> socket.socket:
    """A socket that has the address and does not listen yet; raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # A name such as localhost may have addresses of both kinds; clients try the older one too.
    family, kind, protocol, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener
