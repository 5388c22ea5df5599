"""Prometheus metrics: read from plain numbers when somebody asks, so that counting costs next to nothing."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from couriermq import __version__
from couriermq.broker import Broker
from couriermq.catalog import Catalog
from couriermq.clock import Clock
from couriermq.core.duties import ARCHIVE, DELIVERY, UPKEEP
from couriermq.core.events import EventKind
from couriermq.core.model import Counters, Queue
from couriermq.telemetry.histogram import Histogram
from couriermq.telemetry.traffic import Traffic

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
SLICE = 100
"""After the series of this many queues other tasks get a turn."""
QUEUE_FAMILIES = (
    ("courier_queue_messages", "Messages in the queue."),
    ("courier_queue_bytes", "Bytes of their bodies."),
    ("courier_queue_oldest_age_seconds", "Since when the oldest has been there."),
)


class CommitMetrics(Protocol):
    """What a store that commits in groups counts."""

    commits: int
    operations: int
    quarantined: int
    damaged_events: int
    batch_sizes: Histogram
    sync_seconds: Histogram

    @property
    def events(self) -> Mapping[str, int]: ...


class Measured(Protocol):
    """What is asked of a store."""

    @property
    def metrics(self) -> CommitMetrics: ...

    @property
    def unavailable_reason(self) -> str | None: ...

    def holds(self, duty: str) -> bool: ...


class Depth(msgspec.Struct, frozen=True):
    """A queue and its figures at the time of the scrape."""

    queue: Queue
    counters: Counters


async def depths(catalog: Catalog, broker: Broker) -> list[Depth]:
    """The figures of every queue, at most a second old."""
    queues = catalog.all_queues()
    counted = await broker.counters_of(queues)
    return [Depth(queue, counted[queue.key]) for queue in queues if queue.key in counted]


def render(families: Iterable[Metric], *, process: bool) -> bytes:
    """The text that Prometheus reads, with the figures of the process or without them."""
    registry = CollectorRegistry()
    registry.register(_Given(families))
    if process:
        ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Given(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def state_families(store: Measured) -> Iterator[Metric]:
    """What everybody may know: it does not depend on how much is sent."""
    build = GaugeMetricFamily("courier_build", "The version that runs.", labels=["version"])
    build.add_metric([__version__], 1)
    yield build
    yield GaugeMetricFamily(
        "courier_ready", "Whether the store takes writes.", value=int(store.unavailable_reason is None)
    )


def server_families(traffic: Traffic, store: Measured) -> Iterator[Metric]:
    """What concerns the server as a whole, and so tells how much all tenants together do."""
    yield from _requests(traffic)
    yield from _commits(store.metrics)
    yield _duties(store)


def _requests(traffic: Traffic) -> Iterator[Metric]:
    yield GaugeMetricFamily("courier_connections", "Connections that are open.", value=len(traffic.connections))
    yield GaugeMetricFamily("courier_requests_in_hand", "Requests being answered.", value=len(traffic.in_hand))
    labels = ["dialect", "method", "route"]
    total = CounterMetricFamily("courier_requests", "Requests answered.", labels=[*labels, "status"])
    seconds = HistogramMetricFamily("courier_request_seconds", "How long requests took to answer.", labels=labels)
    for lane in list(traffic.lanes.values()):
        where = [lane.dialect, lane.method, lane.pattern]
        for hundreds, count in enumerate(lane.statuses):
            if count:
                total.add_metric([*where, f"{hundreds}xx"], count)
        if any(lane.statuses):
            seconds.add_metric(where, buckets(lane.latency), lane.latency.total)
    yield total
    yield seconds


def _commits(metrics: CommitMetrics) -> Iterator[Metric]:
    yield CounterMetricFamily("courier_commits", "Transactions committed and synced.", value=metrics.commits)
    yield CounterMetricFamily("courier_operations", "Operations in those transactions.", value=metrics.operations)
    yield CounterMetricFamily(
        "courier_quarantined", "Messages set aside because their stored bytes are damaged.", value=metrics.quarantined
    )
    yield CounterMetricFamily(
        "courier_damaged_events", "Events of the journal that are damaged.", value=metrics.damaged_events
    )
    sizes = HistogramMetricFamily("courier_commit_size", "Operations that shared one commit.")
    sizes.add_metric([], buckets(metrics.batch_sizes), metrics.batch_sizes.total)
    yield sizes
    sync = HistogramMetricFamily("courier_sync_seconds", "How long the disk took to make a commit durable.")
    sync.add_metric([], buckets(metrics.sync_seconds), metrics.sync_seconds.total)
    yield sync
    events = CounterMetricFamily("courier_events", "What has happened to messages and queues.", labels=["kind"])
    for kind in EventKind:
        events.add_metric([kind], metrics.events.get(kind, 0))
    yield events


def _duties(store: Measured) -> Metric:
    duties = GaugeMetricFamily("courier_duties", "Duties that this node holds; over all nodes, all.", labels=["duty"])
    for name, parts in (("upkeep", (UPKEEP,)), ("archive", (ARCHIVE,)), ("delivery", DELIVERY)):
        duties.add_metric([name], sum(store.holds(part) for part in parts))
    return duties


def queue_count(catalog: Catalog) -> Metric:
    return GaugeMetricFamily("courier_queues", "Queues of all tenants.", value=len(catalog.all_queues()))


async def queue_text(found: Sequence[Depth], clock: Clock) -> bytes:
    """The series of single queues as Prometheus reads them, written in slices between which other tasks get a turn."""
    now = clock.now()
    families = [[_head(*family)] for family in QUEUE_FAMILIES]
    for first in range(0, len(found), SLICE):
        lines = [_lines(depth, now) for depth in found[first : first + SLICE]]
        for family, slices in zip(families, zip(*lines, strict=True), strict=True):
            family.append("".join(slices).encode())
        await asyncio.sleep(0)
    return b"".join(text for family in families for text in family)


def _lines(depth: Depth, now: int) -> tuple[str, str, str]:
    """The lines of one queue for each of QUEUE_FAMILIES."""
    counters, oldest_at = depth.counters, depth.counters.oldest_at
    queue, tenant = f'queue="{_escaped(depth.queue.name)}"', f'tenant="{_escaped(depth.queue.tenant)}"'
    age = 0.0 if oldest_at is None else (now - oldest_at) / 1_000
    return (
        f'courier_queue_messages{{{queue},state="ready",{tenant}}} {counters.ready_count}.0\n'
        f'courier_queue_messages{{{queue},state="delayed",{tenant}}} {counters.delayed_count}.0\n'
        f'courier_queue_messages{{{queue},state="leased",{tenant}}} {counters.leased_count}.0\n',
        f"courier_queue_bytes{{{queue},{tenant}}} {counters.byte_count}.0\n",
        f"courier_queue_oldest_age_seconds{{{queue},{tenant}}} {age}\n",
    )


def _head(name: str, meaning: str) -> bytes:
    return f"# HELP {name} {meaning}\n# TYPE {name} gauge\n".encode()


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Counts up to and including each bound, as Prometheus wants them."""
    total, cumulative = 0, []
    for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
        total += count
        cumulative.append((str(bound), float(total)))
    return cumulative
