"""Buckets of `messages`, shared out among tasks: each folds a batch's events into the buckets that are its own."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from couriermq.spark.tables import dead_letters, messages, queue_minutes, waiting
from couriermq.spark.tables import events as event_table
from couriermq.spark.tables.columns import arrow_schema
from couriermq.spark.tables.events import is_hidden
from couriermq.spark.tables.folding import COLUMNS, fold
from couriermq.spark.tables.messages import BUCKET, bucket_of
from couriermq.spark.tasks import read_rows, write_rows

ROWS = arrow_schema(messages.SCHEMA, without=["bucket"])

REWRITE = BUCKET
"""What a bucket costs beside its events, in events: its rows are written anew, whether they change or not."""


class Share(NamedTuple):
    """What one task does."""

    buckets: list[int]
    known: dict[int, list[str]]
    """The files of each bucket, as they are."""
    pending: frozenset[int]
    """Those that are still to be written; the others have the batch in them already."""
    events: list[str]
    """The batch's files, in the order of their offsets."""
    draft: str
    told: str
    batch: int


def share_out(weights: Mapping[int, int], count: int) -> list[list[int]]:
    """Buckets in so many lots of about equal weight; the heaviest are given out first."""
    lots: list[list[int]] = [[] for _ in range(max(1, min(count, len(weights))))]
    loads = [0] * len(lots)
    for bucket in sorted(weights, key=lambda bucket: -weights[bucket]):
        lightest = loads.index(min(loads))
        lots[lightest].append(bucket)
        loads[lightest] += weights[bucket] + REWRITE
    return lots


def fold_share(share: Share) -> Iterator[pa.RecordBatch]:
    """In a task: writes each bucket as it is after the batch, and what the other tables must know of it."""
    told = Told(waiting=[], stays=[], deaths=[])
    for bucket, events in _events_of(share):
        rows = read_rows(share.known.get(bucket, []), ROWS)
        if bucket in share.pending:
            rows = fold(rows, events, bucket=bucket, batch=share.batch)
            write_rows(Path(share.draft) / f"bucket={bucket}" / "part-0.parquet", rows)
        told.waiting.append(waiting.count(rows, bucket))
        told.stays.append(queue_minutes.leave(messages.stays_ended(rows, share.batch)))
        told.deaths.append(dead_letters.deaths(rows, share.batch))
    for name, tables in told._asdict().items():
        write_rows(Path(share.told) / name / f"part-{min(share.buckets)}.parquet", pa.concat_tables(tables))
    yield pa.record_batch({"bucket": pa.array(share.buckets, pa.int64())})


class Told(NamedTuple):
    """What tasks have to say of their buckets: what waits, which stays ended in which minute, and who died."""

    waiting: list[pa.Table]
    stays: list[pa.Table]
    deaths: list[pa.Table]


def heard(told: Path) -> Told:
    """In the driver: all that the tasks have said."""
    return Told(*([pq.read_table(file) for file in sorted((told / name).iterdir())] for name in Told._fields))


def _events_of(share: Share) -> Iterator[tuple[int, pa.Table]]:
    wanted = share.events if share.pending else []
    buckets = pa.array(sorted(share.buckets), pa.int64())
    columns = arrow_schema(event_table.SCHEMA, without=set(event_table.SCHEMA.names) - set(COLUMNS))

    def mine(events: pa.Table) -> pa.ChunkedArray:
        ours = pc.is_in(bucket_of(events["seq"]), buckets)
        return pc.and_not(ours, is_hidden(events))

    events = read_rows(wanted, columns, keep=mine)
    places = events["seq"].to_numpy() // BUCKET
    order = np.argsort(places, kind="stable")
    for bucket in buckets.to_pylist():
        start, stop = np.searchsorted(places, [bucket, bucket + 1], sorter=order)
        yield bucket, events.take(order[start:stop])
