"""The listening server: uvicorn's, with our protocol, our deadlines and our way to stop."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import cast

import uvicorn

from couriermq.config import Settings
from couriermq.web.app import App
from couriermq.web.protocol import Connection, Deadlines, sweep


class Listener(uvicorn.Server):
    """Serves until SIGTERM or SIGINT; a second signal does not wait for requests in hand."""

    def __init__(
        self, app: App, settings: Settings, *, on_start: Callable[[], None], on_stop: Callable[[], None]
    ) -> None:
        super().__init__(_config(app, settings))
        self._on_start = on_start
        self._on_stop = on_stop
        app.traffic.connections = self.server_state.connections
        app.traffic.in_hand = self.server_state.tasks

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        await self._serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()

    async def on_tick(self, counter: int) -> bool:
        sweep(cast("Iterable[Connection]", self.server_state.connections), asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Whoever waits for a message answers after the next await: by then no new request can come in.
        self._on_stop()
        await super().shutdown(sockets)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def _config(app: App, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", partial(Connection, deadlines=Deadlines.of(settings))),
        ws="none",
        lifespan="off",
        interface="asgi3",
        proxy_headers=False,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=-(-settings.shutdown_ms // 1_000),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )


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
