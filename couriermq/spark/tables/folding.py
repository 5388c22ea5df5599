"""Messages of one bucket after a batch: what was known of each, and what its events add.

A bucket has a place for each of its messages, so that all is done by placing: the last of a message's events that are
placed into an array is the one that stays. Events come in the order of their offsets.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from couriermq.spark.tables.columns import MS_US, NEVER, instants
from couriermq.spark.tables.events import ENDS, FAILURES, PASSES
from couriermq.spark.tables.messages import BUCKET, DEAD, LONGEST_HISTORY, OPEN, STEP

Places = npt.NDArray[np.int64]
"""Of rows or of events, counted from the first one."""
Chosen = npt.NDArray[np.bool_]

FACTS = ("tenant", "queue", "queue_id", "message_id", "seq", "size")
COLUMNS = ("offset", "kind", "at", *FACTS, "attempt", "detail")
"""Of the events, what is looked at."""
COUNTS = {"attempts": "received", "released": "released", "expired": "lease_expired"}


def fold(known: pa.Table, events: pa.Table, *, bucket: int, batch: int) -> pa.Table:
    """The bucket's rows in the order of their seqs; `known` has all that there were, with the columns of the result."""
    rows, place = _with_new(known, events, bucket * BUCKET)
    happened = Happened(events, place[events["seq"].to_numpy() - bucket * BUCKET], len(rows))
    fresh = {**_counts(rows, happened), **_instants(rows, happened), **_ends(rows, happened)}
    fresh |= _stays(rows, happened) | _steps(rows, happened, batch)
    touched, newest = happened.last()
    fresh["offset"] = _put(rows["offset"], touched, newest, events["offset"])
    fresh["changed_batch"] = _replaced(rows["changed_batch"], touched, _all(batch, len(touched)))
    fresh["batch"] = _all(batch, len(rows))
    fresh |= _durations(fresh)
    return pa.table([fresh.get(name, rows[name]) for name in known.column_names], schema=known.schema)


class Happened:
    """Events with the rows of the messages that they are about."""

    def __init__(self, events: pa.Table, rows: Places, row_count: int) -> None:
        self.events = events
        self.rows = rows
        self.row_count = row_count
        self._kinds = events["kind"].combine_chunks().dictionary_encode()

    def are(self, *kinds: str) -> Chosen:
        named = np.array([value in kinds for value in self._kinds.dictionary.to_pylist()], dtype=bool)
        chosen: Chosen = named[self._kinds.indices.to_numpy()]
        return chosen

    def last(self, chosen: Chosen | None = None) -> tuple[Places, Places]:
        """Rows that any of the chosen events is about, and the last such event of each."""
        numbers = np.arange(len(self.rows)) if chosen is None else np.flatnonzero(chosen)
        newest = np.full(self.row_count, -1)
        newest[self.rows[numbers]] = numbers
        touched = np.flatnonzero(newest >= 0)
        return touched, newest[touched]

    def details(self, numbers: Places) -> list[dict[str, Any]]:
        return [json.loads(text) if text else {} for text in self.events["detail"].take(numbers).to_pylist()]


def _with_new(known: pa.Table, events: pa.Table, first_seq: int) -> tuple[pa.Table, Places]:
    """All rows, with those of messages that are new; and the row of each of the bucket's places.

    What the first event of a message says of it is true of it: mostly the one that it was sent with, but a journal may
    begin later than its messages.
    """
    old = known["seq"].to_numpy() - first_seq
    heard = events["seq"].to_numpy() - first_seq
    first = np.full(BUCKET, -1)
    first[heard[::-1]] = np.arange(len(heard))[::-1]
    first[old] = -1
    new = np.flatnonzero(first >= 0)
    facts = events.select(list(FACTS)).take(first[new])
    blank = {**{name: facts[name] for name in FACTS}, "outcome": _all(OPEN, len(new)), "last_queue": facts["queue"]}
    blank |= {name: _all(0, len(new)) for name in COUNTS}
    fresh = [blank.get(field.name, pa.nulls(len(new), field.type)) for field in known.schema]
    rows = pa.concat_tables([known, pa.table(fresh, schema=known.schema)])
    order = np.argsort(np.concatenate([old, new]), kind="stable")
    place = np.full(BUCKET, -1)
    place[np.concatenate([old, new])[order]] = np.arange(len(order))
    return rows.take(order).combine_chunks(), place


# -- what the events add ------------------------------------------------------------------------------------------


def _counts(rows: pa.Table, happened: Happened) -> dict[str, pa.Array]:
    return {
        name: pa.array(
            pc.fill_null(rows[name], 0).to_numpy()
            + np.bincount(happened.rows[happened.are(kind)], minlength=happened.row_count)
        )
        for name, kind in COUNTS.items()
    }


def _instants(rows: pa.Table, happened: Happened) -> dict[str, pa.Array]:
    return {
        "sent_at": pc.coalesce(rows["sent_at"], _earliest(pa.nulls(len(rows), pa.int64()), happened, "sent")),
        "first_received_at": _earliest(rows["first_received_at"], happened, "received"),
    }


def _earliest(known: Any, happened: Happened, kind: str) -> pa.Array:
    """The first of several instants, because events may be dated back."""
    chosen, at = happened.are(kind), happened.events["at"]
    earliest = instants(known).copy()
    np.minimum.at(earliest, happened.rows[chosen], instants(at)[chosen])
    return pa.array(earliest, mask=earliest == NEVER).cast(at.type)


def _ends(rows: pa.Table, happened: Happened) -> dict[str, pa.Array]:
    """A message that died is settled, until somebody gives it another chance."""
    touched, events = happened.last(happened.are(*ENDS, *PASSES))
    again = happened.are(*(kind for kind in PASSES if kind != DEAD))
    outcomes = pc.if_else(pa.array(again), OPEN, happened.events["kind"])
    settled = pc.if_else(pa.array(again), pa.scalar(None, happened.events["at"].type), happened.events["at"])
    return {
        "outcome": _put(rows["outcome"], touched, events, outcomes),
        "settled_at": _put(rows["settled_at"], touched, events, settled),
    }


def _stays(rows: pa.Table, happened: Happened) -> dict[str, pa.Array]:
    """Where a message is and since when: it entered with the last passage, or when it was sent."""
    sent = _put(rows["entered_at"], *happened.last(happened.are("sent")), happened.events["at"])
    known = pc.coalesce(rows["entered_at"], sent)
    touched, events = happened.last(happened.are(*PASSES))
    targets = pa.array((detail.get("target") for detail in happened.details(events)), pa.string())
    return {
        "entered_at": _put(known, touched, events, happened.events["at"]),
        "last_queue": pc.coalesce(_placed(touched, targets, len(rows)), rows["last_queue"], rows["queue"]),
    }


def _steps(rows: pa.Table, happened: Happened, batch: int) -> dict[str, pa.Array]:
    """Failures and passages, which few messages have: each of them, and why the last one failed."""
    numbers = np.flatnonzero(happened.are(*FAILURES, *PASSES))
    if not len(numbers):
        return {}
    told = happened.events.take(numbers)
    details = happened.details(numbers)
    reasons = pa.array((detail.get("reason") for detail in details), pa.string())
    values = {
        "target": pa.array((detail.get("target") for detail in details), pa.string()),
        "reason": reasons,
        "batch": _all(batch, len(numbers)),
    }
    steps = [values[name] if name in values else told[name].combine_chunks() for name in STEP.names]
    failures = happened.are(*FAILURES)
    touched, events = happened.last(failures)
    texts = pc.coalesce(reasons, told["kind"].combine_chunks()).take(np.searchsorted(numbers, events))
    return {
        "history": _longer(rows["history"], happened.rows[numbers], steps),
        "last_failure": pc.coalesce(_placed(touched, texts, len(rows)), rows["last_failure"]),
    }


def _longer(history: pa.ChunkedArray, rows: Places, steps: Sequence[pa.Array]) -> pa.Array:
    """Each row's steps and those that are new, but no more than the newest of both: some messages fail for ever."""
    known = history.combine_chunks()
    kind = known.type.value_type
    lengths = pc.fill_null(pc.list_value_length(known), 0).to_numpy().astype(np.int64)
    owners = np.concatenate([np.repeat(np.arange(len(known)), lengths), rows])
    flat = pa.concat_arrays([known.flatten(), pa.StructArray.from_arrays(steps, fields=list(kind)).cast(kind)])
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners, minlength=len(known))
    ends = np.cumsum(counts)
    newest = ends[owners[order]] - np.arange(len(order)) <= LONGEST_HISTORY
    offsets = np.concatenate([[0], np.cumsum(np.minimum(counts, LONGEST_HISTORY))]).astype(np.int32)
    values = flat.take(order[newest])
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=known.type, mask=pa.array(counts == 0))


def _durations(fresh: dict[str, pa.Array]) -> dict[str, pa.Array]:
    acked = pc.equal(fresh["outcome"], "acked")
    taken = _ms_between(fresh["sent_at"], fresh["settled_at"])
    return {
        "time_to_first_receive_ms": _ms_between(fresh["sent_at"], fresh["first_received_at"]),
        "time_to_ack_ms": pc.if_else(acked, taken, pa.scalar(None, pa.int64())),
    }


# -- columns ------------------------------------------------------------------------------------------------------


def _all(value: Any, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), count)


def _ms_between(start: Any, end: Any) -> pa.Array:
    return pc.divide(pc.subtract(end.cast(pa.int64()), start.cast(pa.int64())), MS_US)


def _put(column: Any, rows: Places, events: Places, values: Any) -> pa.Array:
    """The column with the events' values in these rows, which are in order."""
    return _replaced(column, rows, values.take(pa.array(events)))


def _placed(rows: Places, values: pa.Array, count: int) -> pa.Array:
    """A column with the values in these rows, and null elsewhere."""
    return _replaced(pa.nulls(count, values.type), rows, values)


def _replaced(column: Any, rows: Places, values: Any) -> pa.Array:
    mask = np.zeros(len(column), dtype=bool)
    mask[rows] = True
    base, fresh = (side.combine_chunks() if isinstance(side, pa.ChunkedArray) else side for side in (column, values))
    return pc.replace_with_mask(base, pa.array(mask), fresh)
