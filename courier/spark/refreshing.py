"""One batch of events into every table. Doing it again, after a crash anywhere in it, changes nothing.

The events are written first and read back as Parquet, a few columns at a time. What happened to messages is folded
into the parts of `messages` that it touches; all that the other tables need of messages is read from those parts.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from courier.spark.lake import Lake
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
from courier.spark.tables.columns import HOUR_MS, hour_number

EVENTS, MESSAGES, QUEUE_MINUTES = "events", "messages", "queue_minutes"
LISTENER_MINUTES, DEAD_LETTERS, TENANT_USAGE = "listener_minutes", "dead_letters", "tenant_usage"
WAITING = "_waiting"
TABLES = (EVENTS, MESSAGES, QUEUE_MINUTES, LISTENER_MINUTES, DEAD_LETTERS, TENANT_USAGE)
HOURLY = ("day", "hour")
MOST_PER_TASK = 4
"""How many times more tasks than cores a fold is spread over, so that a large bucket holds up few others."""


class Extent(NamedTuple):
    """What a batch touches: buckets of messages, and hours since the epoch, of queues and of listeners."""

    buckets: list[int]
    hours: list[int]
    listener_hours: list[int]
    days: list[int]


def refresh(lake: Lake, happened: DataFrame, batch: int) -> None:
    """Bring a batch into the tables, one after the other."""
    events = lake.store.append(EVENTS, event_table.to_table(happened), batch)
    extent = _extent(events)
    refresh_messages(lake, event_table.of_messages(events), extent, batch)
    touched = lake.store.read(MESSAGES, messages.SCHEMA, _buckets(extent))
    refresh_waiting(lake, touched, extent, batch)
    refresh_queue_minutes(lake, event_table.of_messages(events), touched, extent, batch)
    refresh_dead_letters(lake, touched, batch)
    refresh_listener_minutes(lake, event_table.of_listeners(events), extent, batch)
    refresh_tenant_usage(lake, events, extent, batch)


def _extent(events: DataFrame) -> Extent:
    narrow = events.where(f.col("seq").isNotNull() | f.col("kind").isin(*tenant_usage.REQUESTS)).select(
        event_table.is_hidden().alias("hidden"),
        f.col("seq").isNotNull().alias("of_message"),
        messages.bucket_of("seq"),
        hour_number("at").alias("hour"),
    )
    hidden, of_message = f.col("hidden"), f.col("of_message")
    row = narrow.agg(
        _each(f.col("bucket"), of_message & ~hidden),
        _each(f.col("hour"), of_message & ~hidden),
        _each(f.col("hour"), of_message & hidden),
        _each(f.expr("hour div 24"), ~hidden),
    ).first()
    return Extent(*([], [], [], []) if row is None else row)


def _each(value: Column, condition: Column) -> Column:
    return f.sort_array(f.collect_set(f.when(condition, value)))


def refresh_messages(lake: Lake, events: DataFrame, extent: Extent, batch: int) -> None:
    store, parts = lake.store, _buckets(extent)
    pending = _pending(lake, MESSAGES, parts, batch)
    if not pending:
        return
    known = store.read(MESSAGES, messages.SCHEMA, pending)
    if len(pending) < len(parts):
        buckets = [_number(part) for part in pending]
        events = events.where(messages.bucket_of("seq").isin(*buckets))
    width = max(1, min(len(pending), MOST_PER_TASK * lake.width))
    rows = messages.fold(known, events, batch=batch, width=width, whole=lake.terms.whole)
    store.replace(MESSAGES, rows, ["bucket"], pending, batch)


def refresh_waiting(lake: Lake, touched: DataFrame, extent: Extent, batch: int) -> None:
    shelves = sorted({f"shelf={bucket // waiting.SHELF}" for bucket in extent.buckets})
    pending = _pending(lake, WAITING, shelves, batch)
    if pending:
        known = lake.store.read(WAITING, waiting.SCHEMA, pending)
        narrow = touched.select("tenant", "last_queue", "bucket", "outcome", "entered_at")
        rows = waiting.fold(known, narrow, extent.buckets, batch=batch)
        rows = rows.where(f.col("shelf").isin(*(_number(part) for part in pending)))
        lake.store.replace(WAITING, rows.repartition(1), ["shelf"], pending, batch)


def refresh_queue_minutes(lake: Lake, events: DataFrame, touched: DataFrame, extent: Extent, batch: int) -> None:
    """From the batch's first hour on all are written, because a level holds until the next event."""
    if not extent.hours:
        return
    parts = _hours_since(lake, QUEUE_MINUTES, extent.hours)
    pending = _pending(lake, QUEUE_MINUTES, parts, batch)
    known = lake.store.read(QUEUE_MINUTES, queue_minutes.SCHEMA, parts)
    counted = queue_minutes.count(events)
    left = queue_minutes.leave(messages.stays_ended(touched, batch))
    fresh = [_only(frame, pending, parts) for frame in (counted, left)]
    now = waiting.by_queue(lake.store.read(WAITING, waiting.SCHEMA))
    rows = queue_minutes.complete(queue_minutes.add(known, *fresh), now, batch=batch)
    rows = rows.where(_in_parts(pending)) if len(pending) < len(parts) else rows
    if pending:
        lake.store.replace(QUEUE_MINUTES, rows.repartition(1), HOURLY, pending, batch)


def refresh_listener_minutes(lake: Lake, events: DataFrame, extent: Extent, batch: int) -> None:
    parts = [_hour_part(hour) for hour in extent.listener_hours]
    pending = _pending(lake, LISTENER_MINUTES, parts, batch)
    if pending:
        known = lake.store.read(LISTENER_MINUTES, listener_minutes.SCHEMA, pending)
        counted = _only(listener_minutes.count(events), pending, parts)
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


def refresh_tenant_usage(lake: Lake, events: DataFrame, extent: Extent, batch: int) -> None:
    months = sorted({f"month={_instant(day * 24):%Y-%m}" for day in extent.days})
    pending = _pending(lake, TENANT_USAGE, months, batch)
    if pending:
        known = lake.store.read(TENANT_USAGE, tenant_usage.SCHEMA, pending)
        asked = events.where(f.col("kind").isin(*tenant_usage.REQUESTS) & ~event_table.is_hidden())
        rows = tenant_usage.add(known, tenant_usage.count(asked), batch=batch)
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
