"""Messages of one bucket after a batch: what was known of each, and what its events add.

A bucket has a place for each of its messages, so that all is done by placing: the last of a message's events that are
placed into an array is the one that stays. The events of a message are put into the order of their turns. A batch may
bring events from before those that are known, because shards are read each at its own pace: what a row says last is
therefore only replaced by an event with a turn that is not lower. Events without a turn count as turn 0 and come in the
order of their offsets.
"""

import json
from typing import Any, NamedTuple

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
COLUMNS = ("offset", "kind", "at", *FACTS, "attempt", "detail", "turn", "sent_at")
"""Of the events, what is looked at."""
COUNTS = {"attempts": "received", "released": "released", "expired": "lease_expired"}


def fold(known: pa.Table, events: pa.Table, *, bucket: int, batch: int) -> pa.Table:
    """The bucket's rows in the order of their seqs; `known` has all that there were, with the columns of the result."""
    events = events.take(np.argsort(_turns(events["turn"]), kind="stable"))
    rows, place = _with_new(known, events, bucket * BUCKET)
    happened = Happened(events, place[events["seq"].to_numpy() - bucket * BUCKET], len(rows))
    touched, _ = happened.last()
    fresh = {**_counts(rows, happened), **_instants(rows, happened), **_last(rows, happened)}
    history = History.of(rows, happened, touched, batch)
    fresh |= _ends(rows, happened, history, batch) | _entered(rows, fresh, history)
    fresh["history"] = history.put_into(rows["history"])
    fresh["last_failure"] = history.last_failures(rows["last_failure"])
    fresh["changed_batch"] = _replaced(rows["changed_batch"], touched, _all(batch, len(touched)))
    fresh["batch"] = _all(batch, len(rows))
    fresh |= _durations(fresh)
    return pa.table([fresh.get(name, rows[name]) for name in known.column_names], schema=known.schema)


def _turns(column: Any) -> Places:
    turns: Places = pc.fill_null(column, 0).to_numpy()
    return turns


class Happened:
    """Events, in the order of their turns, with the rows of the messages that they are about."""

    def __init__(self, events: pa.Table, rows: Places, row_count: int) -> None:
        self.events = events
        self.rows = rows
        self.row_count = row_count
        self.turns = _turns(events["turn"])
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
    begin later than its messages, and the journal of another shard may tell the beginning later.
    """
    old = known["seq"].to_numpy() - first_seq
    heard = events["seq"].to_numpy() - first_seq
    first = np.full(BUCKET, -1)
    first[heard[::-1]] = np.arange(len(heard))[::-1]
    known = _begun_earlier(known, events, first[old])
    first[old] = -1
    new = np.flatnonzero(first >= 0)
    facts = events.select([*FACTS, "turn"]).take(first[new])
    blank = {**{name: facts[name] for name in FACTS}, "outcome": _all(OPEN, len(new)), "first_turn": facts["turn"]}
    blank |= {name: _all(0, len(new)) for name in COUNTS}
    fresh = [blank.get(field.name, pa.nulls(len(new), field.type)) for field in known.schema]
    rows = pa.concat_tables([known, pa.table(fresh, schema=known.schema)])
    order = np.argsort(np.concatenate([old, new]), kind="stable")
    place = np.full(BUCKET, -1)
    place[np.concatenate([old, new])[order]] = np.arange(len(order))
    return rows.take(order).combine_chunks(), place


def _begun_earlier(known: pa.Table, events: pa.Table, first: Places) -> pa.Table:
    """The known rows, with what is said of them by events that are earlier than the first that was known."""
    turns = np.concatenate([_turns(events["turn"]), [0]])  # the last for rows without an event
    earlier = np.flatnonzero((first >= 0) & (turns[first] < _turns(known["first_turn"])))
    for name in (*FACTS, "first_turn") if len(earlier) else ():
        column = _put(known[name], earlier, first[earlier], events["turn" if name == "first_turn" else name])
        known = known.set_column(known.column_names.index(name), name, column)
    return known


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
    sent = _earliest(pa.nulls(len(rows), pa.int64()), happened, "sent")
    told = _put(rows["sent_at"], *happened.last(pc.is_valid(happened.events["sent_at"]).to_numpy()),
                happened.events["sent_at"])  # fmt: skip
    return {
        "sent_at": pc.coalesce(rows["sent_at"], told, sent),
        "first_received_at": _earliest(rows["first_received_at"], happened, "received"),
    }


def _earliest(known: Any, happened: Happened, kind: str) -> pa.Array:
    """The first of several instants, because events may be dated back."""
    chosen, at = happened.are(kind), happened.events["at"]
    earliest = instants(known).copy()
    np.minimum.at(earliest, happened.rows[chosen], instants(at)[chosen])
    return pa.array(earliest, mask=earliest == NEVER).cast(at.type)


def _last(rows: pa.Table, happened: Happened) -> dict[str, pa.Array]:
    """What the event with the highest turn says: where the message was, or where that event brought it."""
    touched, newest = happened.last()
    latest = happened.turns[newest] >= _turns(rows["turn"])[touched]
    touched, newest = touched[latest], newest[latest]
    events = happened.events
    queues, ids = events["queue"].combine_chunks(), events["queue_id"].combine_chunks()
    passed = np.flatnonzero(happened.are(*PASSES))
    details = happened.details(passed)
    queues = _replaced(queues, passed, pa.array((one.get("target") for one in details), pa.string()))
    ids = _replaced(ids, passed, pa.array((one.get("target_id") for one in details), pa.string()))
    return {
        "offset": _put(rows["offset"], touched, newest, events["offset"]),
        "turn": _put(rows["turn"], touched, newest, events["turn"]),
        "last_queue": _put(rows["last_queue"], touched, newest, queues),
        "last_queue_id": _put(rows["last_queue_id"], touched, newest, ids),
    }


class History(NamedTuple):
    """Failures and passages of the rows that a batch touches, in the order of rows and turns."""

    touched: Places
    owners: Places
    """The row of each step, as its place among `touched`."""
    steps: pa.StructArray
    counts: Places
    """Of the steps of each of `touched`."""

    @classmethod
    def of(cls, rows: pa.Table, happened: Happened, touched: Places, batch: int) -> "History":
        """What is known and what is new, but of each message no more than the newest: some fail for ever."""
        known = rows["history"].combine_chunks().take(touched)
        kind = known.type.value_type
        numbers = np.flatnonzero(happened.are(*FAILURES, *PASSES))
        lengths = pc.fill_null(pc.list_value_length(known), 0).to_numpy().astype(np.int64)
        place = np.searchsorted(touched, happened.rows[numbers])
        owners = np.concatenate([np.repeat(np.arange(len(touched)), lengths), place])
        steps = pa.concat_arrays([known.flatten(), _steps(happened, numbers, batch).cast(kind)])
        order = np.lexsort((np.arange(len(owners)), _turns(steps.field("turn")), owners))
        counts = np.bincount(owners, minlength=len(touched))
        ends = np.cumsum(counts)
        newest = ends[owners[order]] - np.arange(len(order)) <= LONGEST_HISTORY
        kept = order[newest]
        return cls(touched, owners[kept], steps.take(kept), np.minimum(counts, LONGEST_HISTORY))

    def last(self, *kinds: str) -> tuple[Places, Places]:
        """Rows that have steps of these kinds, and the last such step of each."""
        numbers = np.flatnonzero(pc.is_in(self.steps.field("kind"), pa.array(kinds)).to_numpy(zero_copy_only=False))
        newest = np.full(len(self.touched), -1)
        newest[self.owners[numbers]] = numbers
        have = np.flatnonzero(newest >= 0)
        return self.touched[have], newest[have]

    def put_into(self, column: pa.ChunkedArray) -> pa.Array:
        """The column of all rows."""
        offsets = pa.array(np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int32))
        fresh = pa.ListArray.from_arrays(offsets, self.steps, type=column.type, mask=pa.array(self.counts == 0))
        places = np.arange(len(column))
        places[self.touched] = len(column) + np.arange(len(self.touched))
        return pa.concat_arrays([column.combine_chunks(), fresh]).take(pa.array(places))

    def last_failures(self, known: pa.ChunkedArray) -> pa.Array:
        """The reason of the last failure of each message, or its kind."""
        rows, steps = self.last(*FAILURES)
        texts = pc.coalesce(self.steps.field("reason"), self.steps.field("kind"))
        return _put(known, rows, steps, texts)


def _steps(happened: Happened, numbers: Places, batch: int) -> pa.StructArray:
    told = happened.events.take(numbers)
    details = happened.details(numbers)
    values = {name: pa.array((one.get(name) for one in details), pa.string()) for name in ("target", "target_id")}
    values |= {"reason": pa.array((one.get("reason") for one in details), pa.string())}
    values |= {"batch": pa.repeat(pa.scalar(batch, pa.int64()), len(numbers))}
    steps = [values[name] if name in values else told[name].combine_chunks() for name in STEP.names]
    return pa.StructArray.from_arrays(steps, names=STEP.names)


def _ends(rows: pa.Table, happened: Happened, history: History, batch: int) -> dict[str, pa.Array]:
    """A message that died is settled, until somebody gives it another chance; nothing comes after another end."""
    touched, steps = history.last(*PASSES)
    over = pc.is_in(rows["outcome"], pa.array(ENDS)).to_numpy()[touched]
    touched, steps = touched[~over], steps[~over]
    dead = pc.equal(history.steps.field("kind"), DEAD)
    outcome = _put(rows["outcome"], touched, steps, pc.if_else(dead, DEAD, OPEN))
    at = history.steps.field("at")
    settled = _put(rows["settled_at"], touched, steps, pc.if_else(dead, at, pa.scalar(None, at.type)))
    ended, events = happened.last(happened.are(*ENDS))
    return {
        "outcome": _put(outcome, ended, events, happened.events["kind"]),
        "settled_at": _put(settled, ended, events, happened.events["at"]),
        "settled_batch": _replaced(rows["settled_batch"], ended, _all(batch, len(ended))),
    }


def _entered(rows: pa.Table, fresh: dict[str, pa.Array], history: History) -> dict[str, pa.Array]:
    """Since when a message is in its last queue: since the last passage, or since it was sent.

    It is not known while the passage that brought it there is not.
    """
    begun = pa.array(_turns(rows["first_turn"]) <= 1)
    sent = pc.if_else(begun, fresh["sent_at"], pa.scalar(None, fresh["sent_at"].type))
    passed, steps = history.last(*PASSES)
    entered = _put(pc.coalesce(rows["entered_at"], sent), passed, steps, history.steps.field("at"))
    goals = _put(rows["queue_id"], passed, steps, history.steps.field("target_id"))
    elsewhere = pc.fill_null(pc.not_equal(goals, fresh["last_queue_id"]), False)
    entered = pc.if_else(elsewhere, pa.scalar(None, entered.type), entered)
    return {"entered_at": _put(rows["entered_at"], history.touched, history.touched, entered)}


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
