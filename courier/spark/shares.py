"""Buckets of `messages`, shared out among tasks: each folds a batch's events into the buckets that are its own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from courier.spark.tables import events as event_table
from courier.spark.tables.folding import COLUMNS, fold
from courier.spark.tables.messages import BUCKET, SCHEMA
from courier.spark.tables.tally import is_hidden
from courier.spark.tasks import RowsWriter, arrow_schema, read_rows

REWRITE = BUCKET
"""What a bucket costs beside its events, in events: its rows are written anew, whether they change or not."""


class Share(NamedTuple):
    """What one task does."""

    buckets: list[int]
    known: dict[int, list[str]]
    """The files of each bucket, as they are."""
    events: list[str]
    """The batch's files, in the order of their offsets."""
    draft: str
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
    """In a task: writes each bucket as it is after the batch, and tells which it has written."""
    schema = arrow_schema(SCHEMA, without=["bucket"])
    for bucket, events in _events_of(share):
        known = read_rows(share.known.get(bucket, []), schema)
        writer = RowsWriter(Path(share.draft) / f"bucket={bucket}" / "part-0.parquet", schema)
        writer.add(fold(known, events, bucket=bucket, batch=share.batch))
        writer.close()
    yield pa.record_batch({"bucket": pa.array(share.buckets, pa.int64())})


def _events_of(share: Share) -> Iterator[tuple[int, pa.Table]]:
    buckets = pa.array(sorted(share.buckets), pa.int64())
    columns = arrow_schema(event_table.SCHEMA, without=set(event_table.SCHEMA.names) - set(COLUMNS))

    def mine(events: pa.Table) -> pa.ChunkedArray:
        ours = pc.is_in(pc.divide(events["seq"], BUCKET), buckets)
        return pc.and_not(ours, is_hidden(events))

    events = read_rows(share.events, columns, keep=mine)
    places = events["seq"].to_numpy() // BUCKET
    order = np.argsort(places, kind="stable")
    for bucket in buckets.to_pylist():
        start, stop = np.searchsorted(places, [bucket, bucket + 1], sorter=order)
        yield bucket, events.take(order[start:stop])


def known_files(files: Mapping[str, Sequence[Path]], buckets: Iterable[int]) -> dict[int, list[str]]:
    return {bucket: [str(file) for file in files.get(f"bucket={bucket}", ())] for bucket in buckets}
