"""The past from the lake's tables: sums of minutes and hours that the journal need not be asked for any more."""

import asyncio
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from couriermq.core.billing import UNIT_BYTES
from couriermq.core.events import EventKind
from couriermq.core.limits import LEASE_MS
from couriermq.core.model import HOUR, MINUTE, Exchange, Queue
from couriermq.dialects.anypoint import figures
from couriermq.dialects.anypoint.figures import OPERATION_KINDS, OUTBOX, Row
from couriermq.lake.minutes import Minute, queue_minutes
from couriermq.lake.tables import EVENTS, QUEUE_MINUTES, Lake, Within, day_of, in_ms, start_of_day

if TYPE_CHECKING:
    import pyarrow as pa

Sums = dict[int, Row]
"""Rows by the instant at which their minute or hour began."""


class TablePast:
    """Rows as `figures` makes them of events. Reading is left to a thread."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    async def known_from(self) -> int:
        """The first day that the tables know of."""
        days = await asyncio.to_thread(self._lake.days, QUEUE_MINUTES)
        return start_of_day(days[0]) if days else 0

    async def queue(self, queue: Queue, start: int, end: int) -> "QueuePast":
        """From a lease's longest time before `start` on, so that it is known what was leased then."""
        since = max(start - LEASE_MS, queue.created_at - queue.created_at % MINUTE)  # before, the name was another's
        minutes = await asyncio.to_thread(queue_minutes, self._lake, queue, start=since, end=max(since, end))
        return QueuePast(minutes)

    async def exchange(self, exchange: Exchange, start: int, end: int) -> Sums:
        return await asyncio.to_thread(self._exchange, exchange, start, end)

    def _exchange(self, exchange: Exchange, start: int, end: int) -> Sums:
        import pyarrow.compute as pc  # noqa: PLC0415

        published = (pc.field("kind") == EventKind.PUBLISHED) & (pc.field("queue_id") == exchange.id)
        rows = self._lake.read(
            EVENTS, ["at", "detail"], where=published, within=Within("at", start, end), since_day=day_of(start)
        )
        sums: Sums = {}
        for at, detail in zip(in_ms(rows.column("at")).to_pylist(), rows.column("detail").to_pylist(), strict=True):
            row = sums.setdefault(at - at % MINUTE, [0, 0])
            row[figures.PUBLISHED] += 1
            row[figures.DELIVERED] += _copies(detail)
        return sums

    async def tenant(self, tenant: str, start: int, end: int) -> Sums:
        return await asyncio.to_thread(self._tenant, tenant, start, end)

    def _tenant(self, tenant: str, start: int, end: int) -> Sums:
        import pyarrow.compute as pc  # noqa: PLC0415

        counted = pc.field("kind").isin([*OPERATION_KINDS, EventKind.PUBLISHED])
        rows = self._lake.read(
            EVENTS,
            ["at", "kind", "queue", "size", "detail"],
            where=counted & (pc.field("tenant") == tenant),
            within=Within("at", start, end),
            since_day=day_of(start),
        )
        return _usage(rows.filter(pc.invert(pc.starts_with(rows.column("queue"), OUTBOX)))) if rows.num_rows else {}


class QueuePast:
    """What happened in a queue, and how many messages were in it and leased at any time."""

    def __init__(self, minutes: Sequence[Minute] = ()) -> None:
        self.sums: Sums = {minute.at: _queue_row(minute) for minute in minutes}
        self._ends = [minute.at + MINUTE for minute in minutes]
        self._levels = list(_levels(minutes))

    def level(self, at: int) -> tuple[int, int]:
        """All messages and the leased ones, at an instant that is a whole minute."""
        index = bisect_right(self._ends, at) - 1
        return self._levels[index] if index >= 0 else (0, 0)


def _levels(minutes: Iterable[Minute]) -> Iterator[tuple[int, int]]:
    """A table does not say whether what was purged had been leased; but nothing is leased that is not there."""
    leased = 0
    for minute in minutes:
        counts = minute.counts
        leased += counts["received"] - counts["acked"] - counts["released"] - counts["expired"]
        leased = min(max(leased, 0), minute.backlog)
        yield minute.backlog, leased


def _queue_row(minute: Minute) -> Row:
    counts = minute.counts
    row = [0] * 5
    row[figures.SENT], row[figures.RECEIVED], row[figures.ACKED] = (counts[n] for n in ("sent", "received", "acked"))
    return row


def _usage(rows: "pa.Table") -> Sums:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    kind, size = rows.column("kind"), pc.fill_null(rows.column("size"), 0)
    received = pc.equal(kind, EventKind.RECEIVED)
    carried = pc.or_(received, pc.equal(kind, EventKind.SENT))
    units = pc.max_element_wise(pc.divide(pc.add(size, UNIT_BYTES - 1), UNIT_BYTES), 1)
    operations = [1 if one != EventKind.PUBLISHED else 1 - _copies(detail) for one, detail in _pairs(rows)]
    columns = {
        "hour": pc.multiply(pc.divide(in_ms(rows.column("at")), HOUR), HOUR),
        "operations": pa.array(operations, pa.int64()),
        "receipts": received.cast(pa.int64()),
        "units": pc.if_else(received, units, 0),
        "bytes": pc.if_else(carried, size, 0),
    }
    names = [name for name in columns if name != "hour"]
    summed = pa.table(columns).group_by("hour").aggregate([(name, "sum") for name in names])
    return {row["hour"]: [row[f"{name}_sum"] for name in names] for row in summed.to_pylist()}


def _pairs(rows: "pa.Table") -> "zip[tuple[str, str | None]]":
    """Kinds and details, of which only few are looked at."""
    import pyarrow.compute as pc  # noqa: PLC0415

    published = pc.equal(rows.column("kind"), EventKind.PUBLISHED)
    details = pc.if_else(published, rows.column("detail"), None)
    return zip(rows.column("kind").to_pylist(), details.to_pylist(), strict=True)


def _copies(detail: str | None) -> int:
    return int(json.loads(detail).get("queue_count", 0)) if detail else 0
