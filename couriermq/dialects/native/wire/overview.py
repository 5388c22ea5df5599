"""Queues with their figures and rates on the wire."""

from collections.abc import Callable, Container, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.catalog import Catalog
from couriermq.core.model import Kind, Queue
from couriermq.dialects.native import limits
from couriermq.dialects.native.wire.reading import Order
from couriermq.monitor import overview
from couriermq.monitor.overview import Row, Spark, Wanted, spark_of
from couriermq.monitor.rates import MINUTES, SECONDS

Sort = Literal[
    "name", "ready", "delayed", "leased", "total", "bytes", "oldest", "sent", "received", "acked", "released",
    "expired", "dead",
]  # fmt: skip


class OverviewQuery(Order, rename={"queues": "queue"}):
    """Which queues to show, and in which order."""

    find: Annotated[str, Meta(max_length=256)] = ""
    queues: tuple[str, ...] = ()
    sort: Sort = "name"
    order: Literal["asc", "desc"] = "asc"
    skip: Annotated[int, Meta(ge=0, le=limits.NUMBER)] = 0
    limit: Annotated[int, Meta(ge=1, le=limits.LIST_COUNT)] = 100
    spark: bool = True


class RatesQuery(Order):
    """The last so many seconds, or minutes."""

    seconds: Annotated[int, Meta(ge=1, le=SECONDS)] | UnsetType = UNSET
    minutes: Annotated[int, Meta(ge=1, le=MINUTES)] | UnsetType = UNSET


class PerSecond(msgspec.Struct, frozen=True):
    """Means of the last ten seconds."""

    sent: float
    received: float
    acked: float
    released: float
    expired: float
    dead: float


class QueueRow(msgspec.Struct, kw_only=True):
    """A queue with its figures. `flags` are of paused, dead_letters (of another queue) and listeners."""

    id: str
    name: str
    kind: Kind
    flags: list[str]
    dead_letter_queue: str | None
    ready_count: int
    delayed_count: int
    leased_count: int
    byte_count: int
    oldest_at: int | None
    per_second: PerSecond
    spark: Spark | UnsetType = UNSET


class OverviewTotals(msgspec.Struct, kw_only=True):
    """The sums of all queues that match."""

    queue_count: int
    ready_count: int
    delayed_count: int
    leased_count: int
    byte_count: int
    per_second: PerSecond
    spark: Spark | UnsetType = UNSET


class Overview(msgspec.Struct):
    """A page of queues. `next` goes into `skip`; null is the end."""

    at: int
    queues: list[QueueRow]
    next: int | None
    matched_count: int
    totals: OverviewTotals


class QueueRates(msgspec.Struct, kw_only=True):
    """What happened in each step, the oldest first; the last step is not over. `backlog` is as of a step's end."""

    queue: str
    step_ms: int
    start: int = msgspec.field(name="from")
    sent: list[int]
    received: list[int]
    acked: list[int]
    released: list[int]
    expired: list[int]
    dead: list[int]
    arrived: list[int]
    backlog: list[int]


def wanted_of(query: OverviewQuery) -> Wanted:
    return Wanted(
        find=query.find,
        queues=frozenset(query.queues),
        sort=query.sort,
        descending=query.order == "desc",
        skip=query.skip,
        limit=query.limit,
    )


def write_row(row: Row, flags: list[str], name_of: Callable[[str], str | None], spark_at: int | None) -> QueueRow:
    """`spark_at` is now, where the last hour is wanted."""
    queue, counters = row.queue, row.counters
    target = queue.settings.dead_letter_queue
    return QueueRow(
        id=queue.id,
        name=queue.name,
        kind=queue.kind,
        flags=flags,
        dead_letter_queue=None if target is None else name_of(target),
        ready_count=counters.ready_count,
        delayed_count=counters.delayed_count,
        leased_count=counters.leased_count,
        byte_count=counters.byte_count,
        oldest_at=counters.oldest_at,
        per_second=PerSecond(**row.per_second),
        spark=UNSET if spark_at is None else spark_of(row, spark_at),
    )


def flags_of(queues: Sequence[Queue], catalog: Catalog, tenant: str) -> list[list[str]]:
    """The flags of each of these queues; those of the tenant are looked through once for all of them."""
    owned = catalog.queues(tenant)
    targets = {one.settings.dead_letter_queue for one in owned if one.settings.dead_letter_queue != one.id}
    return [_flags(queue, catalog, targets) for queue in queues]


def _flags(queue: Queue, catalog: Catalog, targets: Container[str | None]) -> list[str]:
    flags = []
    if queue.settings.paused:
        flags.append("paused")
    if queue.id in targets:
        flags.append("dead_letters")
    if catalog.has_listeners(queue):
        flags.append("listeners")
    return flags


def write_totals(totals: overview.Totals, spark: Spark | None) -> OverviewTotals:
    facts = msgspec.structs.asdict(totals)
    per_second = PerSecond(**facts.pop("per_second"))
    return OverviewTotals(**facts, per_second=per_second, spark=UNSET if spark is None else spark)
