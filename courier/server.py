"""The only place that wires things together: from settings to a server that listens."""

import asyncio
import contextlib
import importlib
import importlib.util
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, cast

import msgspec
import uvicorn
import uvloop

from courier.auth.gate import Gate, open_gate
from courier.broker import Broker
from courier.catalog import Catalog
from courier.clock import Clock, SystemClock
from courier.config import Settings
from courier.storage.base import CannotOpen
from courier.storage.sqlite.store import SqliteStore
from courier.telemetry.traffic import Traffic
from courier.upkeep.timekeeper import Timekeeper
from courier.waiting import Arrivals
from courier.web.app import App
from courier.web.call import Dialect
from courier.web.product import Product
from courier.web.protocol import Connection, Deadlines, sweep
from courier.web.services import Services

DIALECTS = ("native", "cloudflare", "anypoint", "discue")

EXIT_OK = 0
EXIT_BAD_SETTING = 2
EXIT_STORE = 3
EXIT_PORT = 4

PORT_FILE = "port"
TOKEN_SAVE_MS = 60_000

log = logging.getLogger("courier.server")


class CannotStart(Exception):
    """The server cannot run; the text is one sentence, the code is what the process exits with."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one running Courier but its socket."""

    app: App
    services: Services
    store: SqliteStore
    minted_token: str | None
    """The root token, on the start that made it."""


class Wakers:
    """What the store tells, passed on to those who wait for messages and for time."""

    def __init__(self, ready: Callable[[int, int], None], due: Callable[[int], None]) -> None:
        self.ready = ready
        self.due = due


# -- inside ---------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def running(
    settings: Settings, *, clock: Clock | None = None, dialects: Sequence[str] = DIALECTS
) -> AsyncIterator[Node]:
    """Open the store and put everything on top of it; at the end finish and close in the opposite order."""
    clock = clock or SystemClock()
    store = SqliteStore(settings.data, min_free_bytes=settings.min_free_bytes)
    arrivals, catalog = Arrivals(clock), Catalog(store, clock)
    timekeeper = Timekeeper(store, clock, journal_ms=settings.journal_age_ms)
    await store.open(directory=catalog, signals=Wakers(arrivals.ready, timekeeper.due))
    try:
        await catalog.load()
        gate, minted = await open_gate(catalog, clock, root_token=settings.root_token)
        services = Services(Broker(store, catalog, clock, arrivals), catalog, gate, clock, store.sealer, settings)
        app = App([Product(), *load_dialects(dialects, settings)], services, Traffic())
        async with _in_background([timekeeper.run(), _keep_tokens(gate, clock)]):
            yield Node(app=app, services=services, store=store, minted_token=minted)
        await gate.save_tokens()
    finally:
        await store.close()


def load_dialects(names: Sequence[str], settings: Settings) -> list[Dialect]:
    """Those of the named dialects that this installation has."""
    found = []
    for name in names:
        module = f"courier.dialects.{name}"
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None:
            found.append(importlib.import_module(module).dialect(settings))
    return found


async def _keep_tokens(gate: Gate, clock: Clock) -> None:
    while True:
        await clock.sleep_until(clock.now() + TOKEN_SAVE_MS)
        try:
            await gate.save_tokens()
        except Exception:
            log.exception("the ends of access tokens could not be saved; will try again")


@contextlib.asynccontextmanager
async def _in_background(jobs: Sequence[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# -- outside --------------------------------------------------------------------------------------------------


def run(settings: Settings) -> int:
    """Serve until told to stop; returns the exit code of the process."""
    try:
        uvloop.run(_serve(settings))
    except CannotStart as error:
        sys.stderr.write(f"courier: {error}\n")
        return error.code
    return EXIT_OK


async def _serve(settings: Settings) -> None:
    listener = _bind(settings.host, settings.port)
    try:
        async with running(settings) as node:
            server = Listener(
                _uvicorn_config(node.app, settings),
                on_start=partial(_announce, settings, listener.getsockname()[1], node.minted_token),
                on_stop=node.services.broker.stop_waiting,
            )
            await server.serve(sockets=[listener])
            (settings.data / PORT_FILE).unlink(missing_ok=True)
    except CannotOpen as error:
        raise CannotStart(str(error), EXIT_STORE) from error
    finally:
        listener.close()


class Listener(uvicorn.Server):
    """Uvicorn's server with our own way to stop: nobody is left waiting for a message."""

    def __init__(self, config: uvicorn.Config, *, on_start: Callable[[], None], on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start
        self._on_stop = on_stop

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
        # The waiting receivers answer after the next await: by then no new request can come in.
        self._on_stop()
        await super().shutdown(sockets)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotStart(f"{host!r} is not an address of this machine: {error.strerror}", EXIT_PORT) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise CannotStart(f"cannot listen on {host}:{port}: {error.strerror}", EXIT_PORT) from error
    return listener


def _uvicorn_config(app: App, settings: Settings) -> uvicorn.Config:
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
        timeout_graceful_shutdown=settings.shutdown_ms // 1_000,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )


def _announce(settings: Settings, port: int, minted_token: str | None) -> None:
    """Tell people where to find us, and programs through a file."""
    (settings.data / PORT_FILE).write_text(f"{port}\n")
    url = f"{'https' if settings.tls_cert else 'http'}://{settings.host}:{port}"
    sys.stderr.write(f"Courier listens on {url} and keeps its data in {settings.data}\n")
    if minted_token is not None:
        sys.stderr.write(FIRST_START.format(token=minted_token, url=url))
    sys.stderr.flush()


FIRST_START = """
This is the first start. Your root token, shown only now:

  {token}

Try it:

  export COURIER_TOKEN={token}
  curl {url}/courier/v1/tenants/default/queues -H "Authorization: Bearer $COURIER_TOKEN" -d '{{"name": "orders"}}'

"""
