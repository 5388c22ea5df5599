"""The rows that an engine keeps of live messages, and the contents that they point to.

The messages that one commit adds to a queue are one run in the journal, which holds their bodies. While they share one
state they are one `Pack`: a pointer to the run. A message with a fate of its own is a `Single`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from couriermq.core.chronicle import Run
from couriermq.core.events import EventKind
from couriermq.core.model import Attribute, Death, Message, Queue, State
from couriermq.core.retry import discard_at

SENT = EventKind.SENT.value
ROW_EVENTS = 1_000
ROW_BYTES = 256 * 1024
"""Bodies in one row of the journal; a larger body has a row of its own."""

STATES = (State.DELAYED, State.READY, State.LEASED)
encode = msgspec.msgpack.Encoder().encode
_attributes = msgspec.msgpack.Decoder(dict[str, str | int | float | bool]).decode
_death = msgspec.msgpack.Decoder(Death).decode


class Pack(msgspec.Struct, gc=False):
    """Messages of one run with one state: seqs `last - count + 1` to `last`, but for those that are `gone`.

    A pack stays in the queue that its messages were sent to: `entered_at` is when they were sent.
    Packs never overlap, so that a seq leads to its pack. `gone` has a bit for each message, the first one's lowest.
    """

    last: int
    queue: int
    state: int
    due_at: int
    attempts: int
    lease_no: int
    entered_at: int
    count: int
    remaining: int
    bytes: int
    start: int
    """The journal row that holds the run."""
    position: int
    """Of the first message among the events of that row."""
    turn: int
    """Of the last event of each of its messages."""
    gone: int = 0

    @property
    def first(self) -> int:
        return self.last - self.count + 1

    def indexes(self) -> Sequence[int]:
        """Of the messages that are in it, counted from the first."""
        gone = self.gone
        return [i for i in range(self.count) if not gone >> i & 1] if gone else range(self.count)

    def seqs(self) -> list[int]:
        """Of the messages that are in it."""
        first = self.first
        return [first + index for index in self.indexes()]

    def has(self, seq: int) -> bool:
        index = seq - self.first
        return 0 <= index < self.count and not self.gone >> index & 1


class Single(msgspec.Struct, gc=False):
    """One message with a state of its own. Its body is in the journal row `start`, or copied out where that is None."""

    seq: int
    queue: int
    state: int
    due_at: int
    attempts: int
    lease_no: int
    entered_at: int
    discard_at: int | None
    """When its own retention ends; None where the queue's counts."""
    sent_at: int
    delay_ms: int
    size: int
    given: int
    """1 where the id is the sender's; 0 where the id leads to the seq."""
    id: str
    content_type: str
    attributes: bytes | None
    group: str | None
    trace: str | None
    origin: int | None
    """The seq of the message that this one copies to a listener."""
    death: bytes | None
    start: int | None
    position: int
    turn: int
    """Of its last event; 0 where that was written before turns were counted."""
    is_stored: bool = True

    @property
    def weight(self) -> int:
        return self.size + (len(self.attributes) if self.attributes else 0)

    def discards_at(self, queue: Queue) -> int:
        own = self.discard_at
        return discard_at(queue.settings, entered_at=self.entered_at, retention_ms=None) if own is None else own

    @property
    def died(self) -> Death | None:
        return _death(self.death) if self.death else None


class Content:
    """The runs of one row of the journal."""

    __slots__ = ("_firsts", "count", "runs", "weight")

    def __init__(self, runs: list[Run], weight: int) -> None:
        self.runs = runs
        self.weight = weight
        self.count = sum(map(len, runs))
        self._firsts = [0]
        for run in runs[:-1]:
            self._firsts.append(self._firsts[-1] + len(run))

    @property
    def is_blanked(self) -> bool:
        """Whether bodies were removed from it after their messages were gone."""
        return any(run.kind == SENT and None in run.message_ids for run in self.runs)

    def at(self, position: int) -> tuple[Run, int]:
        """The run that holds the event at a position of the row, and its index there."""
        number = bisect_right(self._firsts, position) - 1
        return self.runs[number], position - self._firsts[number]


class Contents:
    """What rows point to: journal rows by their starts, and bodies that were copied out by seqs."""

    __slots__ = ("_bodies", "_rows")

    def __init__(self, rows: Mapping[int, Content], bodies: Mapping[int, bytes]) -> None:
        self._rows = rows
        self._bodies = bodies

    def run_of(self, pack: Pack) -> tuple[Run, int]:
        """The run, and the index of the pack's first message in it."""
        return self._rows[pack.start].at(pack.position)

    def body_of(self, single: Single) -> bytes:
        if single.start is None:
            return self._bodies[single.seq]
        run, index = self._rows[single.start].at(single.position)
        return run.bodies[index] or b""


def attributes_of(run: Run) -> dict[str, Attribute]:
    found: dict[str, Attribute] | None = (run.detail or {}).get("attributes") or (run.private or {}).get("attributes")
    return found or {}


def weight_of_attributes(run: Run) -> int:
    """Of each message of the run, as a limit in bytes counts it."""
    attributes = attributes_of(run)
    return len(encode(attributes)) if attributes else 0


def single_of(pack: Pack, index: int, contents: Contents) -> Single:
    """A message of a pack as a row of its own; the pack is not changed."""
    run, first = contents.run_of(pack)
    at, detail, attributes = first + index, run.detail or {}, attributes_of(run)
    return Single(
        pack.first + index, pack.queue, pack.state, pack.due_at, pack.attempts, pack.lease_no, pack.entered_at, None,
        run.ats[at], detail.get("delay_ms", 0), run.sizes[at] or 0, 0, run.message_ids[at] or "",
        detail.get("content_type", ""), encode(attributes) if attributes else None, None, detail.get("trace"), None,
        None, pack.start, pack.position + index, pack.turn, is_stored=False,
    )  # fmt: skip


def message_of(single: Single, queue: Queue, body: bytes) -> Message:
    own, death = single.discard_at, single.death
    return Message(
        seq=single.seq,
        id=single.id,
        state=STATES[single.state],
        body=body,
        content_type=single.content_type,
        attributes=_attributes(single.attributes) if single.attributes else {},
        attempts=single.attempts,
        sent_at=single.sent_at,
        entered_at=single.entered_at,
        due_at=single.due_at,
        discard_at=single.discards_at(queue),
        delay_ms=single.delay_ms,
        retention_ms=None if own is None else own - single.entered_at,
        group=single.group or None,
        trace=single.trace,
        death=_death(death) if death else None,
    )


def messages_of(pack: Pack, indexes: Sequence[int], queue: Queue, contents: Contents) -> Iterator[Message]:
    """Messages of a pack, without a row for each on the way."""
    run, first = contents.run_of(pack)
    detail, attributes, seq = run.detail or {}, attributes_of(run), pack.first
    content_type, delay_ms, trace = detail.get("content_type", ""), detail.get("delay_ms", 0), detail.get("trace")
    discards_at = discard_at(queue.settings, entered_at=pack.entered_at, retention_ms=None)
    state, ids, bodies = STATES[pack.state], run.message_ids, run.bodies
    for index in indexes:
        at = first + index
        yield Message(
            seq=seq + index,
            id=ids[at] or "",
            state=state,
            body=bodies[at] or b"",
            content_type=content_type,
            attributes=dict(attributes) if attributes else {},
            attempts=pack.attempts,
            sent_at=run.ats[at],
            entered_at=pack.entered_at,
            due_at=pack.due_at,
            discard_at=discards_at,
            delay_ms=delay_ms,
            trace=trace,
        )
