"""Histories that never happened, written as an archive: for trying the pipeline out and for measuring it."""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from couriermq.core.events import Entry, Event
from couriermq.journal import lives, segments
from couriermq.journal.arrow import record_batch
from couriermq.journal.lives import Lane, Lives
from couriermq.journal.place import Place
from couriermq.journal.schema import journal_schema
from couriermq.journal.segments import SegmentWriter

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

STRETCH = 65_536
"""Messages that are made at a time."""
SEGMENT_EVENTS = 250_000
PER_SECOND = 30.0
"""Messages that are sent in a second, on average."""
EVENTS_A_MESSAGE = 3.3
"""About; how far back a history of so many events must begin."""

_SEED = 0x9E3779B97F4A7C15


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be made: offsets up to `events`, of which the `entries` come first."""

    events: int
    seed: int
    until: int
    """When it shall end, about."""
    lanes: list[Lane]
    entries: list[Entry] = []

    @property
    def start_ms(self) -> int:
        return self.until - round(self.events / EVENTS_A_MESSAGE / PER_SECOND * 1_000)


class Made(msgspec.Struct, frozen=True):
    """Where a history ends: what a store must know to go on from there."""

    next_offset: int
    next_seq: int
    last: Event


def simulate(place: Place, plan: Plan, report: Callable[[int], None] = lambda _: None) -> Made:
    """Write the history as segments; `report` is told how many events there are so far."""
    life = Lives(plan.lanes, seed=plan.seed, start_ms=plan.start_ms, per_second=PER_SECOND)
    batches = _cut(_batches(plan, life), SEGMENT_EVENTS)
    place.list()  # a folder is made by the first look into it
    offset, last = 0, None
    for group in batches:
        end = offset + sum(batch.num_rows for batch in group)
        _write(place, offset, end, group)
        offset, last = end, group[-1].slice(group[-1].num_rows - 1)
        report(offset)
    assert last is not None
    return Made(offset, life.next_seq, segments.entries_of(last)[0].event)


def _write(place: Place, start: int, end: int, batches: "list[pa.RecordBatch]") -> None:
    draft = place.create(f"{start:020d}")
    try:
        writer = SegmentWriter(draft.sink)
        for batch in batches:
            writer.add_batch(batch)
        writer.close()
        draft.publish(segments.name_of(start, end))
    except BaseException:
        draft.abandon()
        raise


def _cut(batches: "Iterator[pa.RecordBatch]", size: int) -> "Iterator[list[pa.RecordBatch]]":
    """The same rows in groups of `size`."""
    group: list[pa.RecordBatch] = []
    room = size
    for batch in batches:
        rest = batch
        while rest.num_rows >= room:
            yield [*group, rest.slice(0, room)]
            group, rest, room = [], rest.slice(room), size
        if rest.num_rows:
            group.append(rest)
            room -= rest.num_rows
    if group:
        yield group


def _batches(plan: Plan, life: Lives) -> "Iterator[pa.RecordBatch]":
    columns = _Columns(plan)
    offset = len(plan.entries)
    if plan.entries:
        yield record_batch(plan.entries)
    for rows in _in_order(life):
        chosen = rows[: plan.events - offset]
        for start in range(0, len(chosen), segments.GROUP_ROWS):
            part = chosen[start : start + segments.GROUP_ROWS]
            yield columns.batch(part, offset + start)
        offset += len(chosen)
        if offset >= plan.events:
            return


def _in_order(life: Lives) -> "Iterator[np.ndarray[Any, Any]]":
    """Events in the order in which they are written, without end."""
    import numpy as np  # noqa: PLC0415

    left = np.zeros(0, lives.row_type())
    while True:
        made, until = life.stretch(STRETCH)
        rows = np.concatenate([left, made])
        due = rows["written"] < until
        left, ready = rows[~due], rows[due]
        yield ready[np.argsort(ready["written"], kind="stable")]


class _Columns:
    """Turns rows into columns of the journal; texts are looked up, not made."""

    def __init__(self, plan: Plan) -> None:
        import numpy as np  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        self._np, self._pa = np, pa
        self._seed = plan.seed
        lanes = plan.lanes
        self._kinds = pa.array(lives.KINDS)
        self._tenants = pa.array([lane.tenant for lane in lanes])
        self._queue_ids = pa.array([lane.queue_id for lane in lanes])
        self._queues = pa.array([lane.queue for lane in lanes])
        self._hidden = np.array([lane.queue.startswith("~") for lane in lanes])
        bodies = _bodies(np.random.default_rng(plan.seed))
        self._bodies = pa.array(bodies, pa.binary())
        self._sizes = np.array([len(body) for body in bodies])
        self._principals = pa.array(["root", "delivery", *(f"app-{lane.tenant}" for lane in lanes)])
        self._details = pa.array([_detail(kind, lane, lanes) for lane in lanes for kind in range(len(lives.KINDS))])
        self._hex = np.frombuffer("".join(f"{n:02x}" for n in range(256)).encode(), "u1").reshape(256, 2)

    def batch(self, rows: Any, offset: int) -> "pa.RecordBatch":
        np, pa = self._np, self._pa
        lane, kind, body = rows["lane"], rows["kind"], rows["body"]
        bare = (kind != lives.SENT) | self._hidden[lane]
        values = {
            "offset": np.arange(offset, offset + len(rows)),
            "kind": self._kinds.take(pa.array(kind)),
            "at": rows["at"].copy(),
            "tenant": self._tenants.take(pa.array(lane)),
            "queue_id": self._queue_ids.take(pa.array(lane)),
            "queue": self._queues.take(pa.array(lane)),
            "seq": rows["seq"].copy(),
            "message_id": self._ids(rows["origin"]),
            "attempt": rows["attempt"].astype("i8"),
            "size": self._sizes[body],
            "principal": self._principals.take(self._principal_of(lane, kind)),
            "body": self._bodies.take(pa.array(body, mask=bare)),
            "detail": self._detail_of(rows),
            "turn": rows["turn"].copy(),
            "sent_at": rows["sent"].copy(),
        }
        return pa.RecordBatch.from_arrays(
            [pa.array(values[field.name], field.type) for field in journal_schema()], schema=journal_schema()
        )

    def _principal_of(self, lane: Any, kind: Any) -> "pa.Array":
        """Listeners are served by Courier itself, and nobody is to blame for what time does."""
        np = self._np
        timely = np.isin(kind, (lives.LEASE_EXPIRED, lives.DEAD_LETTERED, lives.DISCARDED))
        chosen = np.where(kind == lives.REDRIVEN, 0, np.where(self._hidden[lane], 1, lane + 2))
        return self._pa.array(chosen, mask=timely)

    def _ids(self, seqs: Any) -> "pa.Array":
        """32 hex digits, different for every message, that look like those of a real one."""
        np, pa = self._np, self._pa
        mixed = np.empty((len(seqs), 2), "u8")
        mixed[:, 0] = _mix(seqs.astype("u8") + np.uint64(self._seed * _SEED % 2**64))
        mixed[:, 1] = _mix(mixed[:, 0])
        digits = self._hex[mixed.view("u1").reshape(-1)].reshape(-1)
        offsets = np.arange(len(seqs) + 1, dtype="i4") * 32
        return pa.StringArray.from_buffers(len(seqs), pa.py_buffer(offsets), pa.py_buffer(digits))

    def _detail_of(self, rows: Any) -> "pa.Array":
        pa = self._pa
        plain = self._details.take(pa.array(rows["lane"].astype("i4") * len(lives.KINDS) + rows["kind"]))
        told = rows["note"] != lives.PLAIN
        if not told.any():
            return plain
        import pyarrow.compute as pc  # noqa: PLC0415

        return pc.replace_with_mask(plain, pa.array(told), self._notes(rows[told]))

    def _notes(self, rows: Any) -> "pa.Array":
        """What the delivery log says of an attempt."""
        import pyarrow.compute as pc  # noqa: PLC0415

        pa = self._pa
        heads = {lives.DELIVERED: ("delivered", 200), lives.RETRY: ("retry", 503), lives.DEAD: ("dead", 500)}
        ends = pa.array([f',"verdict":"{v}","status":{s},"latency_ms":' for v, s in heads.values()])
        begun = pa.array(rows["at"] - rows["latency"]).cast(pa.string())
        took = pa.array(rows["latency"]).cast(pa.string())
        middle = ends.take(pa.array(self._np.clip(rows["note"] - lives.DELIVERED, 0, 2)))
        notes = pc.binary_join_element_wise('{"at":', begun, middle, took, "}", "")
        return pc.if_else(pa.array(rows["note"] == lives.LAST), '{"delivered":true}', notes)


def _mix(numbers: Any) -> Any:
    """Splitmix64: every bit of a number changes about half of the bits of the answer."""
    import numpy as np  # noqa: PLC0415

    mixed = numbers + np.uint64(_SEED)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _bodies(dice: "np.random.Generator") -> list[bytes]:
    lengths = (dice.lognormal(4.2, 0.7, lives.BODIES)).astype(int)
    numbers = dice.integers(0, 1 << 40, (lives.BODIES, 2)).tolist()
    texts = dice.integers(97, 123, int(lengths.sum()), dtype="u1").tobytes().decode()
    bodies, start = [], 0
    for index, (order, customer) in enumerate(numbers):
        text = texts[start : start + lengths[index]]
        start += lengths[index]
        bodies.append(json.dumps({"order": order, "customer": customer % 50_000, "note": text}).encode())
    return bodies


def _detail(kind: int, lane: Lane, lanes: list[Lane]) -> str | None:
    """As the store writes it, for the kinds whose detail is the same each time."""
    target = lanes[lane.dead] if lane.dead >= 0 else None
    detail: dict[str, Any] = {}
    if kind == lives.SENT:
        detail = {"content_type": "application/json"}
    elif kind == lives.EXTENDED:
        detail = {"lease_ms": lives.LEASE_MS}
    elif kind == lives.DEAD_LETTERED and target is not None:
        detail = {"reason": "attempts exhausted", "target_id": target.queue_id, "target": target.queue}
    elif kind == lives.REDRIVEN:
        source = next((one for one in lanes if one.dead >= 0 and lanes[one.dead] is lane), lane)
        detail = {"target_id": source.queue_id, "target": source.queue}
    elif kind == lives.DISCARDED:
        detail = {"reason": "retention"}
    return json.dumps(detail, separators=(",", ":")) if detail else None
