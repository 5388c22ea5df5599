"""Prometheus metrics: read from plain numbers when somebody asks, so that counting costs next to nothing."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
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
BREATH = 50
"""After this many queues everybody else gets a turn."""


class CommitMetrics(Protocol):
    """What a store that commits in groups counts."""

    commits: int
    operations: int
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
    """The figures of every queue."""
    found = []
    for index, queue in enumerate(catalog.all_queues(), 1):
        found.append(Depth(queue, await broker.counters(queue)))
        if index % BREATH == 0:
            await asyncio.sleep(0)
    return found


def render(families: Iterable[Metric]) -> bytes:
    """The text that Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(_Given(families))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Given(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def server_families(traffic: Traffic, store: Measured) -> Iterator[Metric]:
    """What concerns the server as a whole: it names no tenant and no queue."""
    build = GaugeMetricFamily("courier_build", "The version that runs.", labels=["version"])
    build.add_metric([__version__], 1)
    yield build
    yield GaugeMetricFamily(
        "courier_ready", "Whether the store takes writes.", value=int(store.unavailable_reason is None)
    )
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


def queue_families(found: Iterable[Depth], clock: Clock) -> Iterator[Metric]:
    """What concerns single queues."""
    labels = ["tenant", "queue"]
    messages = GaugeMetricFamily("courier_queue_messages", "Messages in the queue.", labels=[*labels, "state"])
    size = GaugeMetricFamily("courier_queue_bytes", "Bytes of their bodies.", labels=labels)
    age = GaugeMetricFamily("courier_queue_oldest_age_seconds", "Since when the oldest has been there.", labels=labels)
    now = clock.now()
    for depth in found:
        where, counters = [depth.queue.tenant, depth.queue.name], depth.counters
        messages.add_metric([*where, "ready"], counters.ready_count)
        messages.add_metric([*where, "delayed"], counters.delayed_count)
        messages.add_metric([*where, "leased"], counters.leased_count)
        size.add_metric(where, counters.byte_count)
        age.add_metric(where, 0 if counters.oldest_at is None else (now - counters.oldest_at) / 1_000)
    yield from (messages, size, age)


def buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Counts up to and including each bound, as Prometheus wants them."""
    total, cumulative = 0, []
    for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
        total += count
        cumulative.append((str(bound), float(total)))
    return cumulative
