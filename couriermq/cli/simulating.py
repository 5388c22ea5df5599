"""`courier simulate`: a data directory with a long history that never happened."""

import asyncio
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from cyclopts import Parameter

from couriermq.catalog import Catalog
from couriermq.cli.connection import Output
from couriermq.cli.copies import refuse_strangers
from couriermq.cli.data import Config, Data, data_directory
from couriermq.cli.exits import Failure, usage
from couriermq.cli.progress import Progress
from couriermq.cli.quantities import show_count
from couriermq.cli.screen import Screen
from couriermq.clock import FakeClock, SystemClock
from couriermq.core.events import Entry
from couriermq.core.flows import Flows
from couriermq.core.model import Queue, QueueSettings
from couriermq.journal import lives
from couriermq.journal.lives import Lane
from couriermq.journal.place import LocalPlace
from couriermq.journal.simulating import Made, Plan
from couriermq.journal.simulating import simulate as write_history
from couriermq.storage.base import CannotOpen
from couriermq.storage.sqlite import SqliteStore, care
from couriermq.storage.sqlite.connection import DATABASE

ARCHIVE = "archive"
PRINCIPAL = "simulation"
LEAST_EVENTS = 1_000
TENANTS = {"default": 10.0, "acme": 5.0, "globex": 2.5, "initech": 1.2, "umbrella": 0.6}
"""Tenants and how busy each of them is."""
QUEUES = ("orders", "emails", "invoices", "clicks", "exports", "webhooks")
"""Every tenant has these; the first are the busiest."""
FAILING = {"exports": 0.4, "invoices": 0.1, "webhooks": 0.15}
DELIVERED = "webhooks"
"""The queue that has a listener."""


def simulate(
    *,
    events: Annotated[int, Parameter(metavar="N")],
    seed: Annotated[int, Parameter(metavar="N")] = 1,
    data: Data = None,
    config: Config = None,
    json: Output = False,
) -> None:
    """Write a made-up history into an empty data directory, as an archive that `courier serve` can serve.

    Tenants, queues and listeners are real; the messages in the history are not in the queues.

    Parameters
    ----------
    events
        How many events the history shall have.
    seed
        The same seed makes the same history.
    """
    if events < LEAST_EVENTS:
        raise usage(f"--events must be at least {LEAST_EVENTS}")
    if importlib.util.find_spec("numpy") is None:
        raise Failure("a simulation needs numpy: install couriermq[spark]")
    screen, directory = Screen(json=json), data_directory(data, config)
    refuse_strangers(directory)
    if (directory / DATABASE).exists():
        raise Failure(f"{directory} already holds data; simulate into an empty directory")
    with Progress("simulating", unit="event", total=events, json=json) as progress:
        try:
            made = make(directory, events=events, seed=seed, until=SystemClock().now(), report=progress.reach)
        except CannotOpen as error:
            raise Failure(str(error)) from None
    sentence = f"wrote {show_count(made.next_offset, 'event')}; serve them with `courier serve --data {directory}`"
    screen.tell({"events": made.next_offset, "data": str(directory)}, sentence)


def make(
    directory: Path, *, events: int, seed: int, until: int, report: Callable[[int], None] = lambda _: None
) -> Made:
    """A store with queues and no messages, whose journal goes on behind the archive beside it."""
    plan = Plan(events=events, seed=seed, until=until, lanes=[])
    world = asyncio.run(_make_world(directory, _Then(plan.start_ms, seed)))
    plan = msgspec.structs.replace(plan, lanes=world.lanes, entries=world.entries)
    made = write_history(LocalPlace(directory / ARCHIVE), plan, report)
    care.continue_after(directory, offset=made.next_offset, next_seq=made.next_seq, last=made.last)
    return made


class _Then(FakeClock):
    """A clock that stands at the beginning of the history, whose dice fall as the seed says."""

    def __init__(self, now: int, seed: int) -> None:
        import numpy as np  # noqa: PLC0415

        super().__init__(now)
        self._generator = np.random.default_rng(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._generator.bytes(count)


class _Nobody:
    """Waits for no message and no time."""

    def ready(self, queue_key: int, count: int) -> None: ...

    def is_awaited(self, queue_key: int, count: int) -> bool:
        return False

    def journaled(self) -> None: ...

    def due(self, at: int) -> None: ...

    def duties_changed(self) -> None: ...

    def failed(self, reason: str) -> None: ...

    def happened(self, flows: Flows) -> None: ...


class World(NamedTuple):
    """The queues that there are, and what the journal says of their making."""

    lanes: list[Lane]
    entries: list[Entry]


async def _make_world(directory: Path, clock: _Then) -> World:
    store = SqliteStore(directory)
    catalog = Catalog(store, clock)
    await store.open(directory=catalog, signals=_Nobody())
    try:
        await catalog.load()
        lanes = [lane for tenant in TENANTS for lane in await _make_tenant(catalog, tenant)]
        entries = await store.read_events(start=0, limit=LEAST_EVENTS)
    finally:
        await store.close()
    return World(_placed(lanes), entries)


async def _make_tenant(catalog: Catalog, tenant: str) -> list[Lane]:
    """A tenant's lanes, in which `dead` and `outbox` still count from the lane itself."""
    if tenant != "default":
        await catalog.create_tenant(tenant, principal=PRINCIPAL)
    lanes: list[Lane] = []
    for rank, name in enumerate(QUEUES):
        dead = await catalog.create_queue(tenant, f"{name}-dead", principal=PRINCIPAL)
        settings = QueueSettings(
            max_attempts=lives.MAX_ATTEMPTS,
            lease_ms=lives.LEASE_MS,
            retention_ms=lives.RETENTION_MS,
            dead_letter_queue=dead.id,
            keep_delivered=name != DELIVERED,
        )
        queue = await catalog.create_queue(tenant, name, settings=settings, principal=PRINCIPAL)
        weight, failing = TENANTS[tenant] / (rank + 1) ** 1.3, FAILING.get(name, 0.02)
        outbox = await _make_listener(catalog, queue, failing) if name == DELIVERED else []
        lanes += [
            Lane(tenant, queue.id, queue.name, dead=1, outbox=2 if outbox else -1, weight=weight, failing=failing),
            Lane(tenant, dead.id, dead.name),
            *outbox,
        ]
    return lanes


async def _make_listener(catalog: Catalog, queue: Queue, failing: float) -> list[Lane]:
    listener = await catalog.create_listener(
        queue, "shop", f"https://hooks.example.com/{queue.tenant}", principal=PRINCIPAL
    )
    outbox, dead = catalog.outbox(listener), catalog.dead_letters(listener)
    return [
        Lane(queue.tenant, outbox.id, outbox.name, dead=1, failing=failing),
        Lane(queue.tenant, dead.id, dead.name),
    ]


def _placed(lanes: list[Lane]) -> list[Lane]:
    """The same lanes with places counted from the beginning."""
    return [
        lane._replace(
            dead=index + lane.dead if lane.dead >= 0 else -1, outbox=index + lane.outbox if lane.outbox >= 0 else -1
        )
        for index, lane in enumerate(lanes)
    ]
