"""One batch of events into every table. Doing it again, after a crash anywhere in it, changes nothing.

The events are in their table already, and counted. Tasks of Spark fold them into the parts of `messages` that they
touch. What the other tables need is small by then, counts and what the tasks tell of those messages, and is added to
them here, in the driver.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from couriermq.spark.lake import Lake
from couriermq.spark.shares import Share, Told, fold_share, heard, share_out
from couriermq.spark.stores.base import Part
from couriermq.spark.tables import dead_letters, listener_minutes, messages, queue_minutes, tenant_usage, waiting
from couriermq.spark.tables import events as event_table
from couriermq.spark.tables.columns import DAY_MS, HOUR_MS, HOURLY, MS_US, NUMBER, arrow_schema, group, instants, struct
from couriermq.spark.tables.events import is_hidden
from couriermq.spark.taking import EVENTS
from couriermq.spark.tasks import read_rows, spread, write_rows

MESSAGES, QUEUE_MINUTES, LISTENER_MINUTES = "messages", "queue_minutes", "listener_minutes"
DEAD_LETTERS, TENANT_USAGE, WAITING = "dead_letters", "tenant_usage", "_waiting"
TABLES = (EVENTS, MESSAGES, QUEUE_MINUTES, LISTENER_MINUTES, DEAD_LETTERS, TENANT_USAGE)
MODULES: dict[str, Any] = {
    EVENTS: event_table, MESSAGES: messages, QUEUE_MINUTES: queue_minutes, LISTENER_MINUTES: listener_minutes,
    DEAD_LETTERS: dead_letters, TENANT_USAGE: tenant_usage, WAITING: waiting,
}  # fmt: skip
BY: dict[str, Sequence[str]] = {
    MESSAGES: ["bucket"], QUEUE_MINUTES: HOURLY, LISTENER_MINUTES: HOURLY, DEAD_LETTERS: ["day"],
    TENANT_USAGE: ["month"], WAITING: ["shelf"],
}  # fmt: skip
"""The columns that name the parts of each table, outermost first."""
TOLD = "told"
WRITTEN = struct(bucket=NUMBER)


class Extent(NamedTuple):
    """What a batch touches: buckets of messages, hours since the epoch, of queues and of listeners, and days."""

    buckets: dict[int, int]
    """With how many events each."""
    hours: list[int]
    listener_hours: list[int]
    days: list[int]


def refresh(lake: Lake, tally: pa.Table, batch: int) -> None:
    """Bring a batch whose events are in the table into the others, one after the other."""
    extent = _extent(tally)
    told = refresh_messages(lake, extent, batch)
    refresh_waiting(lake, told, extent, batch)
    refresh_queue_minutes(lake, tally, told, extent, batch)
    refresh_dead_letters(lake, told, batch)
    refresh_listener_minutes(lake, tally, extent, batch)
    refresh_tenant_usage(lake, tally, extent, batch)


def _extent(tally: pa.Table) -> Extent:
    hidden, of_message = is_hidden(tally), pc.is_valid(tally["bucket"])
    seen, shown, delivered = map(tally.filter, (pc.and_not(of_message, hidden), pc.invert(hidden), hidden))
    weights = group(seen, ["bucket"], {"count": "sum"}).to_pydict()
    return Extent(
        buckets=dict(sorted(zip(weights["bucket"], weights["count"], strict=True))),
        hours=_each(seen["minute"], HOUR_MS),
        listener_hours=_each(delivered["minute"], HOUR_MS),
        days=_each(shown["minute"], DAY_MS),
    )


def _each(column: pa.ChunkedArray, length_ms: int) -> list[int]:
    return sorted({int(number) for number in instants(column) // (length_ms * MS_US)})


def refresh_messages(lake: Lake, extent: Extent, batch: int) -> Told:
    """Tasks of Spark fold the events in; what they tell of the messages is for the other tables."""
    if not extent.buckets:
        return Told([], [], [])
    store, parts = lake.store, [f"bucket={bucket}" for bucket in extent.buckets]
    pending = _pending(lake, MESSAGES, parts, batch)
    draft, told = store.draft(MESSAGES), store.draft(TOLD)
    events = [str(file) for file in store.batch_files(EVENTS, batch)]
    files = {_number(part): [*map(str, of_part)] for part, of_part in store.part_files(MESSAGES, parts).items()}
    numbers = frozenset(map(_number, pending))
    shares = [
        Share(lot, files, numbers.intersection(lot), events, str(draft), str(told), batch)
        for lot in share_out(extent.buckets, lake.width)
    ]
    spread(lake.spark, shares, fold_share, WRITTEN).collect()
    if pending:
        store.put(MESSAGES, draft, messages.SCHEMA, BY[MESSAGES], pending, batch)
    return heard(told)


def refresh_waiting(lake: Lake, told: Told, extent: Extent, batch: int) -> None:
    shelves = sorted({f"shelf={bucket // waiting.SHELF}" for bucket in extent.buckets})
    pending = _pending(lake, WAITING, shelves, batch)
    if pending:
        known = _known(lake, WAITING, pending)
        rows = waiting.add(known, pa.concat_tables(told.waiting), extent.buckets, batch=batch)
        shelf = [f"shelf={bucket // waiting.SHELF}" for bucket in rows["bucket"].to_pylist()]
        _replace(lake, WAITING, rows, shelf, pending, batch)


def refresh_queue_minutes(lake: Lake, tally: pa.Table, told: Told, extent: Extent, batch: int) -> None:
    """From the batch's first hour on all are written, because a level holds until the next event."""
    if not extent.hours:
        return
    parts = _hours_since(lake, QUEUE_MINUTES, extent.hours)
    pending = _pending(lake, QUEUE_MINUTES, parts, batch)
    if not pending:
        return
    fresh = [_only(rows, pending) for rows in (queue_minutes.count(tally), pa.concat_tables(told.stays))]
    now = waiting.by_queue(_known(lake, WAITING, lake.store.parts(WAITING)))
    minutes = queue_minutes.add(_known(lake, QUEUE_MINUTES, parts), *fresh)
    rows = _only(queue_minutes.complete(minutes, now, batch=batch), pending)
    _replace(lake, QUEUE_MINUTES, rows, _hours_of(rows), pending, batch)


def refresh_listener_minutes(lake: Lake, tally: pa.Table, extent: Extent, batch: int) -> None:
    pending = _pending(lake, LISTENER_MINUTES, [_hour_part(hour) for hour in extent.listener_hours], batch)
    if pending:
        counted = _only(listener_minutes.count(tally), pending)
        rows = listener_minutes.add(_known(lake, LISTENER_MINUTES, pending), counted, batch=batch)
        _replace(lake, LISTENER_MINUTES, rows, _hours_of(rows), pending, batch)


def refresh_dead_letters(lake: Lake, told: Told, batch: int) -> None:
    fresh = pa.concat_tables(told.deaths) if told.deaths else dead_letters.NONE
    days = _days_of(fresh)
    pending = _pending(lake, DEAD_LETTERS, sorted(set(days)), batch)
    if pending:
        rows = dead_letters.add(_known(lake, DEAD_LETTERS, pending), fresh.filter(_among(days, pending)), batch=batch)
        _replace(lake, DEAD_LETTERS, rows, _days_of(rows), pending, batch)


def refresh_tenant_usage(lake: Lake, tally: pa.Table, extent: Extent, batch: int) -> None:
    months = sorted({f"month={_instant(day * 24):%Y-%m}" for day in extent.days})
    pending = _pending(lake, TENANT_USAGE, months, batch)
    if pending:
        rows = tenant_usage.add(_known(lake, TENANT_USAGE, pending), tenant_usage.count(tally), batch=batch)
        month = [f"month={day[:7]}" for day in rows["day"].to_pylist()]
        _replace(lake, TENANT_USAGE, rows, month, pending, batch)


# -- parts ------------------------------------------------------------------------------------------------------


def _pending(lake: Lake, table: str, parts: Iterable[Part], batch: int) -> list[Part]:
    """The parts that the batch has not written yet."""
    wanted = list(parts)
    done = lake.store.done(table, wanted, batch)
    return [part for part in wanted if part not in done]


def _known(lake: Lake, table: str, parts: Iterable[Part]) -> pa.Table:
    """The rows of these parts, but for the columns that name the parts."""
    files = lake.store.part_files(table, parts)
    schema = arrow_schema(schema_of(table), without=BY.get(table, ()))
    return read_rows([str(file) for part in sorted(files) for file in files[part]], schema)


def _replace(
    lake: Lake, table: str, rows: pa.Table, part_of: Sequence[Part], pending: Iterable[Part], batch: int
) -> None:
    """Put the rows in place of the pending parts; each row has its part named, and other parts stay."""
    draft, wanted = lake.store.draft(table), list(pending)
    named = pa.array(part_of, pa.string())
    for part in wanted:
        mine = rows.filter(pc.equal(named, part))
        if len(mine):
            write_rows(draft / part / "part-0.parquet", mine)
    lake.store.put(table, draft, schema_of(table), BY[table], wanted, batch)


def _among(part_of: Sequence[Part], parts: Sequence[Part]) -> pa.Array:
    return pc.is_in(pa.array(part_of, pa.string()), pa.array(parts, pa.string()))


def _number(part: Part) -> int:
    return int(part.partition("=")[2])


def _instant(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * HOUR_MS / 1_000, tz=UTC)


def _hour_part(hour: int) -> Part:
    return f"{_instant(hour):day=%Y-%m-%d/hour=%H}"


def _hours_since(lake: Lake, table: str, hours: list[int]) -> list[Part]:
    first = _hour_part(min(hours))
    later = (part for part in lake.store.parts(table) if part >= first)
    return sorted({*map(_hour_part, hours), *later})


def _hours_of(rows: pa.Table) -> list[Part]:
    hours = instants(rows["minute"]) // (HOUR_MS * MS_US)
    names = {int(hour): _hour_part(int(hour)) for hour in set(hours)}
    return [names[int(hour)] for hour in hours]


def _days_of(deaths: pa.Table) -> list[Part]:
    return [f"{died_at:day=%Y-%m-%d}" for died_at in deaths["died_at"].to_pylist()]


def _only(rows: pa.Table, pending: Sequence[Part]) -> pa.Table:
    """The rows of minutes in parts that are still to be written."""
    return rows.filter(_among(_hours_of(rows), pending))


def schema_of(table: str) -> StructType:
    """The columns that a table has now."""
    schema: StructType = MODULES[table].SCHEMA
    return schema
