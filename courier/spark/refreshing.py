"""One batch of events into every table. Doing it again, after a crash anywhere in it, changes nothing.

The events are in their table already, and counted. They are folded into the parts of `messages` that they touch; what
the other tables need to know comes from the counts and from those parts.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from courier.spark.lake import Lake
from courier.spark.shares import Share, fold_share, known_files, share_out
from courier.spark.stores.base import Part
from courier.spark.tables import (
    dead_letters,
    listener_minutes,
    messages,
    queue_minutes,
    tenant_usage,
    waiting,
)
from courier.spark.tables import (
    events as event_table,
)
from courier.spark.tables.columns import DAY_MS, HOUR_MS, NUMBER, struct
from courier.spark.tables.tally import is_hidden
from courier.spark.taking import EVENTS
from courier.spark.tasks import spread

MESSAGES, QUEUE_MINUTES = "messages", "queue_minutes"
LISTENER_MINUTES, DEAD_LETTERS, TENANT_USAGE = "listener_minutes", "dead_letters", "tenant_usage"
WAITING = "_waiting"
TABLES = (EVENTS, MESSAGES, QUEUE_MINUTES, LISTENER_MINUTES, DEAD_LETTERS, TENANT_USAGE)
HOURLY = ("day", "hour")
WRITTEN = struct(bucket=NUMBER)


class Extent(NamedTuple):
    """What a batch touches: buckets of messages, and hours since the epoch, of queues and of listeners."""

    buckets: dict[int, int]
    """With how many events each."""
    hours: list[int]
    listener_hours: list[int]
    days: list[int]


def refresh(lake: Lake, tally: pa.Table, batch: int) -> None:
    """Bring a batch whose events are in the table into the others, one after the other."""
    extent = _extent(tally)
    counted = lake.spark.createDataFrame(tally)
    refresh_messages(lake, extent, batch)
    touched = lake.store.read(MESSAGES, messages.SCHEMA, _buckets(extent))
    refresh_waiting(lake, touched, extent, batch)
    refresh_queue_minutes(lake, counted, touched, extent, batch)
    refresh_dead_letters(lake, touched, batch)
    refresh_listener_minutes(lake, counted, extent, batch)
    refresh_tenant_usage(lake, counted, extent, batch)


def _extent(tally: pa.Table) -> Extent:
    hidden, of_message = is_hidden(tally), pc.is_valid(tally["bucket"])
    seen, delivered = (tally.filter(chosen) for chosen in (pc.and_not(of_message, hidden), hidden))
    weights = seen.group_by("bucket").aggregate([("count", "sum")]).to_pydict()
    hours, days = (
        _each(rows["minute"], length) for rows, length in ((seen, HOUR_MS), (tally.filter(pc.invert(hidden)), DAY_MS))
    )
    return Extent(
        buckets=dict(sorted(zip(weights["bucket"], weights["count_sum"], strict=True))),
        hours=hours,
        listener_hours=_each(delivered["minute"], HOUR_MS),
        days=days,
    )


def _each(instants: pa.ChunkedArray, length_ms: int) -> list[int]:
    numbers = instants.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
    return sorted({int(number) for number in numbers // length_ms})


def refresh_messages(lake: Lake, extent: Extent, batch: int) -> None:
    store = lake.store
    pending = _pending(lake, MESSAGES, _buckets(extent), batch)
    if not pending:
        return
    draft, events = store.draft(MESSAGES), [str(file) for file in store.batch_files(EVENTS, batch)]
    files = store.part_files(MESSAGES, pending)
    lots = share_out({_number(part): extent.buckets[_number(part)] for part in pending}, lake.width)
    shares = [Share(lot, known_files(files, lot), events, str(draft), batch) for lot in lots]
    spread(lake.spark, shares, fold_share, WRITTEN).collect()
    store.put(MESSAGES, draft, messages.SCHEMA, ["bucket"], pending, batch)


def refresh_waiting(lake: Lake, touched: DataFrame, extent: Extent, batch: int) -> None:
    shelves = sorted({f"shelf={bucket // waiting.SHELF}" for bucket in extent.buckets})
    pending = _pending(lake, WAITING, shelves, batch)
    if pending:
        known = lake.store.read(WAITING, waiting.SCHEMA, pending)
        narrow = touched.select("tenant", "last_queue", "bucket", "outcome", "entered_at")
        rows = waiting.fold(known, narrow, extent.buckets, batch=batch)
        rows = rows.where(f.col("shelf").isin(*(_number(part) for part in pending)))
        lake.store.replace(WAITING, rows.repartition(1), ["shelf"], pending, batch)


def refresh_queue_minutes(lake: Lake, tally: DataFrame, touched: DataFrame, extent: Extent, batch: int) -> None:
    """From the batch's first hour on all are written, because a level holds until the next event."""
    if not extent.hours:
        return
    parts = _hours_since(lake, QUEUE_MINUTES, extent.hours)
    pending = _pending(lake, QUEUE_MINUTES, parts, batch)
    known = lake.store.read(QUEUE_MINUTES, queue_minutes.SCHEMA, parts)
    counted = queue_minutes.count(tally)
    left = queue_minutes.leave(messages.stays_ended(touched, batch))
    fresh = [_only(frame, pending, parts) for frame in (counted, left)]
    now = waiting.by_queue(lake.store.read(WAITING, waiting.SCHEMA))
    rows = queue_minutes.complete(queue_minutes.add(known, *fresh), now, batch=batch)
    rows = rows.where(_in_parts(pending)) if len(pending) < len(parts) else rows
    if pending:
        lake.store.replace(QUEUE_MINUTES, rows.repartition(1), HOURLY, pending, batch)


def refresh_listener_minutes(lake: Lake, tally: DataFrame, extent: Extent, batch: int) -> None:
    parts = [_hour_part(hour) for hour in extent.listener_hours]
    pending = _pending(lake, LISTENER_MINUTES, parts, batch)
    if pending:
        known = lake.store.read(LISTENER_MINUTES, listener_minutes.SCHEMA, pending)
        counted = _only(listener_minutes.count(tally), pending, parts)
        rows = listener_minutes.add(known, counted, batch=batch)
        lake.store.replace(LISTENER_MINUTES, rows.repartition(1), HOURLY, pending, batch)


def refresh_dead_letters(lake: Lake, touched: DataFrame, batch: int) -> None:
    fresh = dead_letters.deaths(touched, batch)
    days = [f"day={row.day}" for row in fresh.select("day").distinct().collect()]
    pending = _pending(lake, DEAD_LETTERS, sorted(days), batch)
    if pending:
        known = lake.store.read(DEAD_LETTERS, dead_letters.SCHEMA, pending)
        rows = dead_letters.add(known, fresh.where(f.concat(f.lit("day="), "day").isin(*pending)), batch=batch)
        lake.store.replace(DEAD_LETTERS, rows.repartition(1), ["day"], pending, batch)


def refresh_tenant_usage(lake: Lake, tally: DataFrame, extent: Extent, batch: int) -> None:
    months = sorted({f"month={_instant(day * 24):%Y-%m}" for day in extent.days})
    pending = _pending(lake, TENANT_USAGE, months, batch)
    if pending:
        known = lake.store.read(TENANT_USAGE, tenant_usage.SCHEMA, pending)
        rows = tenant_usage.add(known, tenant_usage.count(tally), batch=batch)
        rows = rows.where(f.concat(f.lit("month="), "month").isin(*pending))
        lake.store.replace(TENANT_USAGE, rows.repartition(1), ["month"], pending, batch)


# -- parts ------------------------------------------------------------------------------------------------------


def _pending(lake: Lake, table: str, parts: Iterable[Part], batch: int) -> list[Part]:
    """The parts that the batch has not written yet."""
    wanted = list(parts)
    done = lake.store.done(table, wanted, batch)
    return [part for part in wanted if part not in done]


def _buckets(extent: Extent) -> list[Part]:
    return [f"bucket={bucket}" for bucket in extent.buckets]


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


def _only(rows: DataFrame, pending: list[Part], parts: list[Part]) -> DataFrame:
    """The rows of minutes in parts that are still to be written."""
    if len(pending) == len(parts):
        return rows
    hour = f.date_format("minute", "'day='yyyy-MM-dd'/hour='HH")
    return rows.where(hour.isin(*pending))


def _in_parts(pending: list[Part]) -> Column:
    return f.concat(f.lit("day="), "day", f.lit("/hour="), "hour").isin(*pending)


def schema_of(table: str) -> StructType:
    """The columns that a table has now."""
    modules = {
        EVENTS: event_table, MESSAGES: messages, QUEUE_MINUTES: queue_minutes, LISTENER_MINUTES: listener_minutes,
        DEAD_LETTERS: dead_letters, TENANT_USAGE: tenant_usage,
    }  # fmt: skip
    schema: StructType = modules[table].SCHEMA
    return schema
