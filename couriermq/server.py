"""The only place that wires things together: from settings to a server that listens."""

import asyncio
import contextlib
import gc
import importlib
import importlib.util
import ipaddress
import logging
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Union

import msgspec
import uvloop

from couriermq import __version__, permissions
from couriermq.auth.audit import Audit
from couriermq.auth.gate import Gate, open_gate
from couriermq.broker import Broker
from couriermq.catalog import Catalog
from couriermq.catalog.vault import CannotUnseal, Vault, read_keys
from couriermq.claims import Claims
from couriermq.clock import Clock, SystemClock
from couriermq.config import Settings
from couriermq.console import pages as console
from couriermq.console.session import Sessions
from couriermq.core.errors import Unavailable
from couriermq.core.numbers import Numbering
from couriermq.core.quotas import Quotas
from couriermq.delivery import Deliveries
from couriermq.delivery.egress import client_tls, read_proxy
from couriermq.dialects.front import FOR_PEOPLE, Link, front_page, links_among
from couriermq.dialects.openapi import documentation
from couriermq.journal.archive import Archive, Limits
from couriermq.journal.cursors import KIND as CURSOR
from couriermq.journal.cursors import Cursors
from couriermq.journal.followers import Followers
from couriermq.journal.history import History, Past
from couriermq.journal.pasts import Archiving, Pasts
from couriermq.journal.place import LocalPlace, place_of
from couriermq.lake.recent import Recent
from couriermq.lake.stats import Stats
from couriermq.lake.tables import Lake
from couriermq.memory import configure_allocators
from couriermq.monitor.monitor import Monitor
from couriermq.operations import Operations
from couriermq.purges import Purges
from couriermq.signals import NodeSignals
from couriermq.stages import Stages
from couriermq.storage.base import CannotOpen, ShardLog
from couriermq.storage.sqlite.store import SqliteStore
from couriermq.subscriptions import EventFeed
from couriermq.telemetry import logs
from couriermq.upkeep.timekeeper import Timekeeper, go_on_in_time
from couriermq.waiting import Arrivals
from couriermq.web.app import App
from couriermq.web.call import Dialect, Route
from couriermq.web.listener import Listener, bind
from couriermq.web.pages import Pages
from couriermq.web.product import Product
from couriermq.web.proxies import Proxies
from couriermq.web.services import Services
from couriermq.web.tls import Certificates, UnusableCertificate
from couriermq.web.views import Showing

if TYPE_CHECKING:
    from couriermq.storage.sharded.store import ShardedStore
    from couriermq.web.tracing import Tracing

Engine = Union[SqliteStore, "ShardedStore"]

DIALECTS = ("native", "cloudflare", "anypoint", "discue")

EXIT_OK = 0
EXIT_BAD_SETTING = 2
EXIT_STORE = 3
EXIT_PORT = 4
EXIT_DISK = 74  # EX_IOERR of sysexits.h
PORT_FILE = "port"
ARCHIVE = "archive"
TOKEN_SAVE_MS = 60_000

log = logging.getLogger("couriermq.server")


class CannotStart(Exception):
    """The server cannot run; the text is one sentence, the code is what the process exits with."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class CannotGoOn(Exception):
    """The store can commit nothing any more; the text says why."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one running Courier but its socket."""

    app: App
    services: Services
    store: "Engine"
    minted_token: str | None
    """The root token, on the start that made it."""
    links: list[Link]
    """Pages that people are told of when the server starts."""
    failing: "asyncio.Future[str]"
    """Done, with the reason, once the store can commit nothing any more."""


# -- inside ---------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def running(
    settings: Settings,
    *,
    clock: Clock | None = None,
    dialects: Sequence[str] = DIALECTS,
    tracing: "Tracing | None" = None,
) -> AsyncIterator[Node]:
    """Open the store and put everything on top of it; at the end finish and close in the opposite order."""
    clock = clock or SystemClock()
    store = _store(settings, clock)
    arrivals, followers = Arrivals(clock), Followers(clock)
    catalog = _catalog(settings, store, clock, arrivals)
    cursors = Cursors(store, clock)
    catalog.leave_to(CURSOR, cursors.learn)
    timekeeper = _timekeeper(settings, store, clock, cursors)
    archiving = _archiving(settings, clock, cursors) if _archives(settings, store) else None
    archive = archiving(store) if archiving is not None else None
    history = History(Past(store, archive))
    pasts = Pasts(store, history, clock, archiving)
    broker = (tracing.broker if tracing else Broker)(store, catalog, clock, arrivals, history=history)
    deliveries = _deliveries(settings, broker, catalog, clock, store)

    monitor = _monitor(settings, store, broker, catalog, clock)
    signals = NodeSignals(arrivals, followers, timekeeper, deliveries, monitor)
    await store.open(directory=catalog, signals=signals)
    try:
        jump_ms = None if isinstance(store, SqliteStore) else settings.max_clock_skew_ms
        await go_on_in_time(store, clock, most_ms=jump_ms)
        await _load(catalog, settings)
        await cursors.load()
        pasts.look()
        await _open_local(archive)
        gate, minted = await open_gate(catalog, clock, root_token=settings.root_token)
        lake = Lake(settings.lake_place, stamp=lambda: store.stamp.text)
        shards = None if isinstance(store, SqliteStore) else store.shards
        audit = Audit(store, clock)
        purges = Purges(broker, catalog, clock, holds=store.holds, shared=shards is not None)
        stages, is_shared, key_of = Stages(store, broker, clock), shards is not None, store.sealer.derived_key
        operations = Operations(broker, catalog, clock, stages, history, holds=store.holds, shared=is_shared)
        numbering = Numbering(key_of(b"numbers"), clock.random_bytes, tag=lambda: store.identity.present.tag)
        services = Services(
            broker, catalog, gate, clock, store.sealer, numbering, settings,
            deliveries, history, cursors, lake, Stats(lake, Recent(lake, broker)), Claims(store, clock),
            stages, audit, purges, followers, Sessions(gate, settings, key_of(b"console")[:4].hex()), monitor,
            operations, lambda: store.stamp, shards, Proxies(settings.trusted_proxies),
        )  # fmt: skip
        app, links = _app(load_dialects(dialects, settings), services, store, tracing)
        feed = EventFeed(broker, catalog, clock, cursors, holds=store.holds)
        workers = (timekeeper, pasts, archive, shards, audit, purges, operations, monitor, feed)
        jobs = [_keep_tokens(gate, clock), *(worker.run() for worker in workers if worker is not None)]
        async with _in_background(*jobs), deliveries.running():
            yield Node(
                app=app, services=services, store=store, minted_token=minted, links=links, failing=signals.failing
            )
        await _save_last_minute(gate, audit)
    finally:
        await store.close()


def _monitor(settings: Settings, store: "Engine", broker: Broker, catalog: Catalog, clock: Clock) -> Monitor:
    is_shared = not isinstance(store, SqliteStore)
    return Monitor(store, broker, catalog, clock, shared=is_shared, streams=settings.console_streams)


async def _open_local(archive: Archive | None) -> None:
    """Open an archive on this machine; any other is opened when it can be reached."""
    if archive is not None and isinstance(archive.place, LocalPlace):
        await archive.open()


async def _save_last_minute(gate: Gate, audit: Audit) -> None:
    """Sliding tokens and counted audit events; a full disk costs no more than these."""
    with contextlib.suppress(Exception):
        await gate.save_tokens()
    with contextlib.suppress(Exception):
        await audit.flush()


def _catalog(settings: Settings, store: "Engine", clock: Clock, arrivals: Arrivals) -> Catalog:
    defaults = Quotas(**msgspec.structs.asdict(settings.quotas))
    catalog = Catalog(store, clock, _vault(settings, clock), default_quotas=defaults)
    catalog.watch_deleted_queues(arrivals.gone)
    return catalog


def _timekeeper(settings: Settings, store: "Engine", clock: Clock, cursors: Cursors) -> Timekeeper:
    return Timekeeper(
        store,
        clock,
        journal_ms=settings.journal_age_ms,
        journal_bytes=settings.journal_bytes,
        held=cursors.lowest,
    )


def _store(settings: Settings, clock: Clock) -> "Engine":
    if settings.store == "sqlite:":
        return SqliteStore(
            settings.data, min_free_bytes=settings.min_free_bytes, accept_loss=settings.accept_loss, now=clock.now
        )
    try:
        from couriermq.storage.postgres.store import PostgresStore  # noqa: PLC0415 - an extra that many do without
        from couriermq.storage.sharded.store import ShardedStore  # noqa: PLC0415
        from couriermq.storage.skew import Skew  # noqa: PLC0415
    except ImportError:
        raise CannotOpen("store is a PostgreSQL database, which needs the extra: install couriermq[postgres]") from None
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)  # for the port, and for whatever is this node's own

    def database(url: str, shard: int = 0, seal_key: bytes | None = None) -> PostgresStore:
        now = clock.now if isinstance(clock, SystemClock) else None  # a clock moved by hand agrees with nobody's
        skew, stop = Skew(now, limit_ms=settings.max_clock_skew_ms), partial(signal.raise_signal, signal.SIGTERM)
        return PostgresStore(url, shard=shard, seal_key=seal_key, skew=skew, now=clock.now, on_change=stop)

    home = database(settings.store)
    home.patience_seconds = 60.0  # the database may be starting as well
    return ShardedStore(home, lambda shard, key: database(shard.url, shard.number, key), clock)


def _deliveries(settings: Settings, broker: Broker, catalog: Catalog, clock: Clock, store: "Engine") -> Deliveries:
    try:
        proxy = read_proxy(settings.delivery_proxy) if settings.delivery_proxy else None
    except ValueError as error:
        raise CannotStart(f"delivery_proxy is not usable: {error}", EXIT_BAD_SETTING) from None
    try:
        tls = client_tls(
            ca_file=settings.delivery_ca_file, cert=settings.delivery_client_cert, key=settings.delivery_client_key
        )
    except OSError as error:  # ssl.SSLError is one
        files = "delivery_ca_file, delivery_client_cert or delivery_client_key"
        raise CannotStart(f"{files} cannot be used: {error.strerror or error}", EXIT_BAD_SETTING) from error
    return Deliveries(
        broker,
        catalog,
        clock,
        allow=[ipaddress.ip_network(network) for network in settings.delivery_allow],
        blocked_ports=settings.delivery_blocked_ports,
        tls=tls,
        proxy=proxy,
        proxy_resolves=settings.delivery_proxy_resolves,
        disable_ms=settings.delivery_disable_ms,
        liveness_ms=settings.delivery_liveness_ms,
        holds=store.holds,
        shared=not isinstance(store, SqliteStore),
    )


async def _load(catalog: Catalog, settings: Settings) -> None:
    try:
        await catalog.load()
    except CannotUnseal as error:
        raise CannotStart(str(error), EXIT_BAD_SETTING) from None
    if settings.secrets_key_file is None and catalog.listeners():
        log.warning("the secrets of listeners are stored in the clear: secrets_key_file names no key")


def _vault(settings: Settings, clock: Clock) -> Vault:
    """What seals the secrets of listeners at rest."""
    if settings.secrets_key_file is None:
        return Vault()
    try:
        return Vault(read_keys(settings.secrets_key_file), clock.random_bytes)
    except ValueError as error:
        raise CannotStart(f"secrets_key_file is not usable: {error}", EXIT_BAD_SETTING) from None


def _archives(settings: Settings, store: "Engine") -> bool:
    """What one node seals all must be able to read, so several need to be told where."""
    if settings.archive_enabled and settings.archive is None and not isinstance(store, SqliteStore):
        log.info("the journal stays in the database: `archive` names no place that all nodes reach")
        return False
    return settings.archive_enabled


def _archiving(settings: Settings, clock: Clock, cursors: Cursors) -> Archiving:
    """How the archive of a shard is made; the shards share the place, because no two of them share an offset."""
    limits = Limits(
        segment_bytes=settings.archive_segment_bytes,
        segment_ms=settings.archive_segment_ms,
        age_ms=settings.archive_age_ms,
        total_bytes=settings.archive_bytes,
    )
    place = place_of(settings.archive) if settings.archive else LocalPlace(settings.data / ARCHIVE)

    def archive(log: ShardLog) -> Archive:
        return Archive(log, clock, place, limits, held=cursors.lowest)

    return archive


def load_dialects(names: Sequence[str], settings: Settings) -> list[Dialect]:
    """Those of the named dialects that this installation has."""
    found = []
    for name in names:
        module = f"couriermq.dialects.{name}"
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None:
            found.append(importlib.import_module(module).dialect(settings))
    return found


def _app(
    dialects: Sequence[Dialect], services: Services, store: "Engine", tracing: "Tracing | None"
) -> tuple[App, list[Link]]:
    """Everything that answers requests, and the pages among it that people are told of."""
    traffic = services.monitor.node.traffic
    services.showing.extend(dialect for dialect in dialects if isinstance(dialect, Showing))
    pages = Pages(store, traffic, metrics_public=services.settings.metrics_public)
    routes = [*pages.routes, *_console(services), *documentation(dialects)]
    links = links_among(routes)
    product = Product([front_page(links), *routes])
    app = App([product, *dialects], services, traffic, trace=tracing.request if tracing else None)
    return app, [link for link in links if link.path in FOR_PEOPLE]


def _console(services: Services) -> list[Route]:
    if not services.settings.console_enabled or not console.is_there():
        return []
    return console.Console(services.settings, services.sessions.store_id).routes


async def _keep_tokens(gate: Gate, clock: Clock) -> None:
    while True:
        await clock.sleep_until(clock.now() + TOKEN_SAVE_MS)
        try:
            await gate.save_tokens()
        except Exception:
            log.exception("the ends of access tokens could not be saved; will try again")


@contextlib.asynccontextmanager
async def _in_background(*jobs: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
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
    logs.configure(settings)
    os.umask(settings.umask_bits)
    _allow_many_files()
    configure_allocators()
    try:
        tracing = _tracing(settings)
        uvloop.run(_serve(settings, tracing))
        if tracing is not None:
            tracing.close()
    except CannotStart as error:
        sys.stderr.write(f"courier: {error}\n")
        return error.code
    except CannotGoOn as error:
        sys.stderr.write(f"courier: stopped, because {error}; check the disk, then start again\n")
        return EXIT_DISK
    return EXIT_OK


def _spare_the_collector() -> None:
    """What is there now stays, and what a request makes dies by its references: cycles need not be sought often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def _allow_many_files() -> None:
    """Every connection is an open file, and the usual limit is meant for other programs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # then the usual limit has to do
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _tracing(settings: Settings) -> "Tracing | None":
    if settings.otel_endpoint is None:
        return None
    try:
        from couriermq.web.tracing import Tracing  # noqa: PLC0415 - an extra that most do without
    except ImportError:
        sentence = "otel_endpoint is set, but traces need the extra: install couriermq[tracing]"
        raise CannotStart(sentence, EXIT_BAD_SETTING) from None
    return Tracing.to_endpoint(settings.otel_endpoint)


async def _serve(settings: Settings, tracing: "Tracing | None") -> None:
    certificates = _certificates(settings)
    try:
        listener = bind(settings.host, settings.port)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise CannotStart(f"cannot listen on {where}: {error.strerror}", EXIT_PORT) from error
    with contextlib.closing(listener):
        try:
            async with running(settings, tracing=tracing) as node:
                server = Listener(
                    node.app,
                    settings,
                    certificates=certificates,
                    on_start=partial(_announce, settings, listener.getsockname()[1], node),
                    on_stop=partial(_begin_to_stop, node),
                )
                _warn_of_open_doors(settings)
                _spare_the_collector()
                node.failing.add_done_callback(partial(_stop_after_failure, server))
                await server.serve(listener)
                if not isinstance(node.store, SqliteStore) and (reason := node.store.changed_reason):
                    raise CannotStart(reason, EXIT_STORE)
                (settings.data / PORT_FILE).unlink(missing_ok=True)
        except (CannotOpen, Unavailable) as error:
            raise CannotStart(str(error), EXIT_STORE) from error
    if node.failing.done():
        raise CannotGoOn(node.failing.result())


def _stop_after_failure(server: Listener, failing: "asyncio.Future[str]") -> None:
    if not failing.cancelled():
        log.critical("%s: Courier stops, and the next start reads what is on the disk", failing.result())
        server.stop()


def _warn_of_open_doors(settings: Settings) -> None:
    for finding in permissions.open_to_others(settings):
        log.warning(finding.sentence, extra={"path": finding.path, "command": finding.command})


def _begin_to_stop(node: Node) -> None:
    """Other nodes take over at once what this one does for all; those who wait here are let go."""
    node.store.resign()
    node.services.broker.stop_waiting()
    node.services.followers.close()
    node.services.monitor.close()
    node.services.purges.stop()
    node.services.operations.stop()


def _certificates(settings: Settings) -> Certificates | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    try:
        return Certificates(settings.tls_cert, settings.tls_key)
    except UnusableCertificate as error:
        raise CannotStart(str(error), EXIT_BAD_SETTING) from error


def _announce(settings: Settings, port: int, node: Node) -> None:
    """Tell people where to find us, and then programs, through a file that is there only when all is said."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"{'https' if settings.tls_cert else 'http'}://{host}:{port}"
    if logs.are_for_people(settings, sys.stderr):
        sys.stderr.write(f"Courier listens on {url} and keeps its data in {settings.data}\n")
        sys.stderr.writelines(f"{link.name}: {url}{link.path}\n" for link in node.links)
    else:
        log.info("listening", extra={"url": url, "data": settings.data, "version": __version__})
    if node.minted_token is not None:
        console = any(link.path == "/console" for link in node.links)
        sys.stderr.write(FIRST_START.format(token=node.minted_token, url=url, console=OPEN_CONSOLE if console else ""))
    sys.stderr.flush()
    written = settings.data / f"{PORT_FILE}.new"
    written.write_text(f"{port}\n")
    written.replace(settings.data / PORT_FILE)


FIRST_START = """
This is the first start. Your root token, shown only now:

  {token}

Try it:

  export COURIER_TOKEN={token}
  curl {url}/courier/v1/tenants/default/queues -H "Authorization: Bearer $COURIER_TOKEN" -d '{{"name": "first"}}'
{console}
"""

OPEN_CONSOLE = "  courier console    # opens the web console, signed in\n"
