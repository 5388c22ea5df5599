"""A batch's events from the journal into files, counted on the way: each task fetches ranges of its own."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from couriermq.journal.schema import NAMES
from couriermq.spark.journal import Journal, Wanted
from couriermq.spark.lake import Lake
from couriermq.spark.stores.base import BATCH
from couriermq.spark.tables import events as event_table
from couriermq.spark.tables import tally
from couriermq.spark.tables.columns import arrow_schema
from couriermq.spark.tasks import read_rows, spread, write_rows

EVENTS = "events"


def take_in(lake: Lake, ranges: DataFrame, journal: Journal, batch: int) -> pa.Table:
    """Add the events of these ranges to the table, unless they are there; returns their tally."""
    if lake.store.has(EVENTS, batch):
        return count_again(lake, batch)
    draft = lake.store.draft(EVENTS)
    counted = ranges.mapInArrow(partial(_take, journal, str(draft)), tally.SCHEMA).toArrow()
    lake.store.add(EVENTS, draft, event_table.SCHEMA, batch)
    return counted


def count_again(lake: Lake, batch: int) -> pa.Table:
    """The tally of a batch whose events are in the table already."""
    files = lake.store.batch_files(EVENTS, batch)
    return spread(lake.spark, [str(file) for file in files], _count, tally.SCHEMA).toArrow()


def _take(journal: Journal, draft: str, ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: a file for each range."""
    for batch in ranges:
        for one in batch.to_pylist():
            events = write_events(Path(draft), one["start"], journal.read(one["start"], one["stop"], Wanted(NAMES)))
            yield from tally.count(events).to_batches()


def write_events(draft: Path, start: int, batches: Iterator[pa.RecordBatch]) -> pa.Table:
    """Events of the journal as a file of the table, whose name tells where it begins."""
    schema = arrow_schema(event_table.SCHEMA, without=[BATCH])
    events = event_table.of_journal(batches, schema)
    write_rows(draft / f"part-{start:020d}.parquet", events)
    return events


def _count(file: str) -> Iterator[pa.RecordBatch]:
    """In a task."""
    columns = set(event_table.SCHEMA.names) - set(tally.COLUMNS)
    yield from tally.count(read_rows([file], arrow_schema(event_table.SCHEMA, without=columns))).to_batches()
