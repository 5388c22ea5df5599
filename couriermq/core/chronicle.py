"""The events of a commit, packed as the journal keeps them: in runs, where what several events share is said once.

A run is events of one kind about one queue, by one principal: the messages of a call, mostly, or those that many have
sent in the same moment. It takes two thirds of the room of its events, and whoever wants columns has them already.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from couriermq.core.events import Entry, Event, EventKind
from couriermq.core.model import Json, Queue

MOST_EVENTS = 1_000
"""In a run."""
_RUNS = b"\xc1"
"""With which packed runs begin. No other MessagePack does: what 0.1.0 packed is an array of events."""
_SHORT = b"\xc1\xc1"
"""With which runs begin whose columns are packed as `_Short` has them; nothing else does either."""

_ID_DIGITS = 32

Detail = dict[str, Json]
N = TypeVar("N", int, int | None)


class Run(msgspec.Struct, array_like=True, gc=False):
    """Stored in this order: append new fields, never reorder. `bodies` is empty where no event has one.

    `private` is set where the queue does not archive bodies: the store keeps the bodies and these details while
    messages wait, and readers of the journal see neither (see `blanked`).

    In a packed run `turns` and `ages` have one value where all events share it, and none where it is not known.
    """

    kind: str
    tenant: str
    queue_id: str | None
    queue: str | None
    principal: str | None
    detail: Detail | None
    ats: list[int]
    seqs: list[int | None]
    message_ids: list[str | None]
    attempts: list[int | None]
    sizes: list[int | None]
    bodies: list[bytes | None]
    private: Detail | None = None
    turns: list[int | None] = []
    ages: list[int | None] = []
    """Milliseconds from `sent_at` to the event: mostly few, and therefore stored in fewer bytes than the instant."""

    def __len__(self) -> int:
        return len(self.ats)

    def add(
        self,
        at: int,
        seq: int | None,
        message_id: str | None,
        attempt: int | None,
        size: int | None,
        body: bytes | None,
        turn: int | None = None,
        sent_at: int | None = None,
    ) -> None:
        self.ats.append(at)
        self.seqs.append(seq)
        self.message_ids.append(message_id)
        self.attempts.append(attempt)
        self.sizes.append(size)
        self.turns.append(turn)
        self.ages.append(None if sent_at is None else at - sent_at)
        if body is not None:
            self.bodies.append(body)

    @property
    def body_bytes(self) -> int:
        return sum([len(body) for body in self.bodies if body is not None])

    @property
    def is_whole(self) -> bool:
        """Whether all columns are of one length, as they are unless somebody has damaged them."""
        columns = self.seqs, self.message_ids, self.attempts, self.sizes, self.bodies or self.ats
        short = (0, 1, len(self.ats))
        return all(len(column) == len(self.ats) for column in columns) and all(
            len(column) in short for column in (self.turns, self.ages)
        )

    def all_turns(self) -> Sequence[int | None]:
        """One for each event."""
        return _spread(self.turns, len(self))

    def sent_ats(self) -> list[int | None]:
        """One for each event."""
        if not self.ages:
            return [None] * len(self)
        ages = _spread(self.ages, len(self))
        return [None if age is None else at - age for at, age in zip(self.ats, ages, strict=True)]

    def compact(self) -> None:
        """Say once what all events share; nothing can be added afterwards."""
        self.turns, self.ages = _gathered(self.turns), _gathered(self.ages)

    def events(self) -> Iterator[Event]:
        kind, tenant, queue_id, queue, principal = self.kind, self.tenant, self.queue_id, self.queue, self.principal
        bodies = self.bodies or [None] * len(self)
        for at, seq, message_id, attempt, size, body, turn, sent_at in zip(
            self.ats, self.seqs, self.message_ids, self.attempts, self.sizes, bodies, self.all_turns(),
            self.sent_ats(), strict=True,
        ):  # fmt: skip
            detail = self.detail if body is None else {**(self.detail or {}), "body": body}
            yield Event(
                kind, at, tenant, queue_id, queue, seq, message_id, attempt, size, principal, detail, turn, sent_at
            )


def _spread(column: list[int | None], count: int) -> list[int | None]:
    return column if len(column) == count else (column or [None]) * count


def _gathered(column: list[int | None]) -> list[int | None]:
    if not column or column.count(column[0]) < len(column):
        return column
    return [] if column[0] is None else column[:1]


class Commit(msgspec.Struct, frozen=True, gc=False):
    """Events that were committed together, as they are stored; the first has the offset `start`."""

    start: int
    count: int
    events: bytes


class _Short(msgspec.Struct, array_like=True, gc=False):
    """A run as it is stored: a column in which all values are the same, or follow each other, is its first value.

    Most runs are about messages that were sent, received or acked together: then all columns but ids, sizes and bodies
    take a few bytes.
    """

    kind: str
    tenant: str
    queue_id: str | None
    queue: str | None
    principal: str | None
    detail: Detail | None
    private: Detail | None
    count: Annotated[int, Meta(ge=0, le=65_535)]
    ats: int | list[int]
    seqs: int | list[int | None]
    """One number: the first of as many that follow each other."""
    message_ids: bytes | list[str | None]
    """Bytes: 16 for each id of 32 hexadecimal digits, as Courier makes them."""
    attempts: int | list[int | None]
    sizes: int | list[int | None]
    bodies: list[bytes | None]
    turns: list[int | None]
    ages: list[int | None]

    @classmethod
    def of(cls, run: Run) -> "_Short":
        count = len(run.ats)
        return cls(
            run.kind, run.tenant, run.queue_id, run.queue, run.principal, run.detail, run.private, count,
            _same(run.ats, count), _following(run.seqs, count), _as_bytes(run.message_ids, count),
            _same(run.attempts, count), _same(run.sizes, count), run.bodies, run.turns, run.ages,
        )  # fmt: skip

    def run(self) -> Run:
        count, seqs, ids = self.count, self.seqs, self.message_ids
        return Run(
            self.kind, self.tenant, self.queue_id, self.queue, self.principal, self.detail, _repeated(self.ats, count),
            list(range(seqs, seqs + count)) if isinstance(seqs, int) else seqs,
            _as_ids(ids) if isinstance(ids, bytes) else ids, _repeated(self.attempts, count),
            _repeated(self.sizes, count), self.bodies, self.private, self.turns, self.ages,
        )  # fmt: skip


def _same(column: list[N], count: int) -> int | list[N]:
    first = column[0] if column else None
    return first if first is not None and column.count(first) == count else column


def _repeated(column: int | list[N], count: int) -> list[N]:
    return [column] * count if isinstance(column, int) else column


def _following(seqs: list[int | None], count: int) -> int | list[int | None]:
    first = seqs[0] if seqs else None
    return first if first is not None and seqs == list(range(first, first + count)) else seqs


def _as_bytes(ids: list[str | None], count: int) -> bytes | list[str | None]:
    try:
        digits = "".join(ids)  # type: ignore[arg-type]
        packed = bytes.fromhex(digits)
    except (TypeError, ValueError):
        return ids
    is_short = len(digits) == _ID_DIGITS * count and packed.hex() == digits
    return packed if is_short and all(len(one or "") == _ID_DIGITS for one in ids) else ids


def _as_ids(packed: bytes) -> list[str | None]:
    digits = packed.hex()
    return [digits[at : at + _ID_DIGITS] for at in range(0, len(digits), _ID_DIGITS)]


_encode = msgspec.msgpack.Encoder().encode
_shorts = msgspec.msgpack.Decoder(list[_Short]).decode
_runs = msgspec.msgpack.Decoder(list[Run]).decode
_events = msgspec.msgpack.Decoder(list[Event]).decode


class Chronicle:
    """What happens in one transaction, in its order."""

    __slots__ = ("_key", "_open", "count", "runs")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.count = 0
        self._open: Run | None = None
        self._key: tuple[str | None, ...] = ()

    def __len__(self) -> int:
        return self.count

    @property
    def last_at(self) -> int:
        return self.runs[-1].ats[-1]

    def note(
        self,
        kind: str,
        at: int,
        queue: Queue,
        seq: int,
        message_id: str,
        attempt: int,
        size: int,
        principal: str | None = None,
        detail: Detail | None = None,
        body: bytes | None = None,
        *,
        turn: int | None = None,
        sent_at: int | None = None,
    ) -> None:
        """Something has happened to a message."""
        run = self._run(kind, queue.tenant, queue.id, queue.name, principal, detail, has_bodies=body is not None)
        run.add(at, seq, message_id, attempt, size, body, turn, sent_at)
        self.count += 1

    def note_all(
        self,
        kind: str,
        at: int,
        queue: Queue,
        seqs: Sequence[int],
        message_ids: Sequence[str],
        attempts: Sequence[int],
        sizes: Sequence[int],
        principal: str | None = None,
        detail: Detail | None = None,
        bodies: Sequence[bytes] = (),
        *,
        turn: int | None = None,
        sent_at: int | None = None,
    ) -> None:
        """The same has happened to many messages that were sent together."""
        if not seqs:
            return
        run = self._run(kind, queue.tenant, queue.id, queue.name, principal, detail, has_bodies=bool(bodies))
        run.ats += [at] * len(seqs)
        run.seqs += seqs
        run.message_ids += message_ids
        run.attempts += attempts
        run.sizes += sizes
        run.bodies += bodies
        run.turns += [turn] * len(seqs)
        run.ages += [None if sent_at is None else at - sent_at] * len(seqs)
        self.count += len(seqs)

    def extend(self, events: Iterable[Event]) -> None:
        """Events of any sort, one by one."""
        for event in events:
            detail, body = _split(event.detail)
            run = self._run(
                event.kind, event.tenant, event.queue_id, event.queue, event.principal, detail,
                has_bodies=body is not None,
            )  # fmt: skip
            run.add(
                event.at, event.seq, event.message_id, event.attempt, event.size, body, event.turn, event.sent_at
            )  # fmt: skip
            self.count += 1

    def _run(
        self,
        kind: str,
        tenant: str,
        queue_id: str | None,
        queue: str | None,
        principal: str | None,
        detail: Detail | None,
        *,
        has_bodies: bool,
    ) -> Run:
        """The run that is open, if what comes belongs there; else a new one."""
        key, run = (kind, tenant, queue_id, queue, principal), self._open
        if (
            run is None or key != self._key or run.detail != detail or bool(run.bodies) is not has_bodies
            or len(run.ats) >= MOST_EVENTS
        ):  # fmt: skip
            run = self._open = Run(*key, detail, [], [], [], [], [], [])
            self._key = key
            self.runs.append(run)
        return run

    def keep_of_tenants(self) -> None:
        """Leave out what belongs to no tenant, and so to nobody's history."""
        self.runs = [run for run in self.runs if run.tenant]
        self.count = sum(map(len, self.runs))
        self._open = None

    def clear(self) -> None:
        self.runs, self.count, self._open = [], 0, None

    def pack(self) -> bytes:
        return _pack(self.runs)


def _split(detail: Detail | None) -> tuple[Detail | None, bytes | None]:
    """What an event tells, without the body, and the body."""
    body = detail.get("body") if detail else None
    if not detail or type(body) is not bytes:
        return detail, None
    return {name: value for name, value in detail.items() if name != "body"} or None, body


def _pack(runs: Sequence[Run]) -> bytes:
    for run in runs:
        run.compact()
    return _SHORT + _encode([_Short.of(run) for run in runs])


def pack_runs(runs: Sequence[Run]) -> bytes:
    """The runs of one row of the journal."""
    return _pack(runs)


def split_rows(runs: Iterable[Run], *, most_events: int, most_bytes: int) -> Iterator[list[Run]]:
    """Runs as the rows of the journal that hold them; a run that is too large for its company has a row of its own."""
    row: list[Run] = []
    count = size = 0
    for run in runs:
        weight = run.body_bytes
        if row and (count + len(run) > most_events or size + weight > most_bytes):
            yield row
            row, count, size = [], 0, 0
        row.append(run)
        count += len(run)
        size += weight
    if row:
        yield row


def damaged_commits(start: int, stop: int, *, at: int) -> Iterator[Commit]:
    """Offsets whose events can no longer be read, as events that say so."""
    kind = EventKind.DAMAGED.value
    for first in range(start, stop, MOST_EVENTS):
        count = min(MOST_EVENTS, stop - first)
        unknown: list[None] = [None] * count
        run = Run(kind, "", None, None, None, None, [at] * count, [*unknown], [*unknown], [*unknown], [*unknown], [])
        yield Commit(first, count, _pack([run]))


def blanked(packed: bytes) -> bytes:
    """The same events without what readers of the journal do not see."""
    runs = unpack_runs(packed)
    for run in runs:
        if run.private is not None:
            run.bodies, run.private = [], None
    return _pack(runs)


def keep_bodies(packed: bytes, positions: Collection[int]) -> tuple[bytes, int]:
    """The same events with the bodies and ids at these positions only, and how many bodies that leaves."""
    runs = unpack_runs(packed)
    first = kept = 0
    for run in runs:
        if run.bodies:
            waits = [first + index in positions for index in range(len(run))]
            run.bodies = [body if wait else None for body, wait in zip(run.bodies, waits, strict=True)]
            run.message_ids = [id_ if wait else None for id_, wait in zip(run.message_ids, waits, strict=True)]
            kept += sum(waits)
            if not any(waits):
                run.detail = run.private = None
                run.bodies = []
        first += len(run)
    return _pack(runs), kept


def join_bodies(packed: bytes, other: bytes) -> bytes:
    """The same events with the bodies and ids that either of two copies of a row has kept."""
    runs = unpack_runs(packed)
    for run, twin in zip(runs, unpack_runs(other), strict=True):
        if twin.bodies and not run.bodies:
            run.bodies, run.message_ids, run.detail, run.private = (
                twin.bodies, twin.message_ids, twin.detail, twin.private
            )  # fmt: skip
        elif twin.bodies:
            run.bodies = [theirs if own is None else own for own, theirs in zip(run.bodies, twin.bodies, strict=True)]
            ids = zip(run.message_ids, twin.message_ids, strict=True)
            run.message_ids = [theirs if own is None else own for own, theirs in ids]
    return _pack(runs)


def packed(events: Iterable[Event]) -> bytes:
    """Events as a commit of the journal stores them."""
    chronicle = Chronicle()
    chronicle.extend(events)
    return chronicle.pack()


def unpack_runs(packed: bytes) -> list[Run]:
    """The events of a commit in runs, whichever version has packed them."""
    if packed.startswith(_SHORT):
        return [short.run() for short in _shorts(memoryview(packed)[2:])]
    if packed.startswith(_RUNS):
        return _runs(memoryview(packed)[1:])
    chronicle = Chronicle()
    chronicle.extend(_events(packed))
    return chronicle.runs


def unpack(packed: bytes) -> list[Event]:
    """The events of a commit."""
    if packed.startswith(_RUNS):
        return [event for run in unpack_runs(packed) for event in run.events()]
    return _events(packed)


def entries_of(commits: Iterable[Commit], *, start: int, limit: int) -> list[Entry]:
    """The events from `start` on, at most `limit`."""
    entries: list[Entry] = []
    for commit in commits:
        events = unpack(commit.events)
        first = commit.start
        entries.extend(Entry(first + i, events[i]) for i in range(max(0, start - first), len(events)))
        if len(entries) >= limit:
            break
    return entries[:limit]
