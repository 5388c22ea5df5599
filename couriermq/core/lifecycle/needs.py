"""What a decision may ask an engine for. Facts include what the unit has changed so far."""

from collections.abc import Collection, Generator, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from couriermq.core.lifecycle.rows import Pack, Single
from couriermq.core.model import Queue


class Ready(msgspec.Struct, frozen=True, gc=False):
    """Packs and singles that are ready, longest ready first, until `limit` messages: a `Found`."""

    queue: int
    limit: int
    by: int | None = None
    """Only those that were ready at this instant."""


class Named(msgspec.Struct, frozen=True, gc=False):
    """The packs and singles that hold these seqs, in the queue or, where that is None, in any: a `Found`."""

    queue: int | None
    seqs: Collection[int]


class Aged(msgspec.Struct, frozen=True, gc=False):
    """Packs and singles that came in at `until` or before; and singles whose own retention has ended by `now`."""

    queue: int
    until: int
    now: int
    limit: int


class Ended(msgspec.Struct, frozen=True, gc=False):
    """Packs and singles of a state whose `due_at` is `now` or earlier, about `limit` messages: a `Found`."""

    queue: int
    state: int
    now: int
    limit: int


class InOrder(msgspec.Struct, frozen=True, gc=False):
    """Packs and singles behind (entered_at, seq), until `limit` messages or a little more: a `Found`."""

    queue: int
    entered_at: int
    seq: int
    limit: int


class WaitingAgain(msgspec.Struct, frozen=True, gc=False):
    """Packs and singles that were tried and are delayed, before (due_at, seq), the longest wait first: a `Found`."""

    queue: int
    due_at: int
    seq: int
    limit: int


class Given(msgspec.Struct, frozen=True, gc=False):
    """Singles with an id that their senders chose, oldest first, behind a seq: a list of `Single`."""

    queue: int
    id: str
    after: int
    limit: int


class Content(msgspec.Struct, frozen=True, gc=False):
    """What rows point to: `Contents`."""

    packs: Sequence[Pack]
    singles: Sequence[Single] = ()
    bodies: bool = True
    """False where ids, sizes and details are enough: then the bodies need not fit into memory."""


class NextDue(msgspec.Struct, frozen=True, gc=False):
    """(when the next delay or lease ends, when the next own retention does, when the oldest other message came in)."""

    queue: int


class PointingTo(msgspec.Struct, frozen=True, gc=False):
    """All rows that point to a journal row, or the single of a seq: a `Found`."""

    start: int | None
    seq: int | None = None


class HasCopies(msgspec.Struct, frozen=True, gc=False):
    """Whether copies of a message are still on their way to listeners."""

    origin: int


class Dedup(msgspec.Struct, frozen=True, gc=False):
    """For each key that is remembered: (until when, seq, id)."""

    keys: Sequence[tuple[int, str]]


class FreeGroups(msgspec.Struct, frozen=True, gc=False):
    """Names of FIFO groups that nobody holds and whose heads are ready, longest ready first."""

    queue: int
    now: int
    limit: int


class InGroup(msgspec.Struct, frozen=True, gc=False):
    """The first singles of a group, in its order."""

    queue: int
    group: str
    limit: int


class GroupHead(msgspec.Struct, frozen=True, gc=False):
    """(seq, due_at) of the first message of a group, or None."""

    queue: int
    group: str


class JobOf(msgspec.Struct, frozen=True, gc=False):
    """A `Job` without its claims, or None."""

    queue: int
    name: str


class ClaimOf(msgspec.Struct, frozen=True, gc=False):
    """A `ClaimRow`, or None."""

    queue: int
    job: str
    number: int


class LastClaim(msgspec.Struct, frozen=True, gc=False):
    """The highest number of a claim of the job, 0 where there is none."""

    queue: int
    job: str


class DecidedClaim(msgspec.Struct, frozen=True, gc=False):
    """A claim that is to be acked or released, as (job, number, fate, first position and seqs of its first part)."""

    queue: int


class PublicationOf(msgspec.Struct, frozen=True, gc=False):
    """The newest `Publication` of a series, or None."""

    target: str
    series: str


class StageOf(msgspec.Struct, frozen=True, gc=False):
    """(how many messages, keys of their queues) of a stage that can be published, or None."""

    target: str
    name: str


class Found(msgspec.Struct, gc=False):
    """Packs and singles, each in the order that was asked for."""

    packs: list[Pack]
    singles: list[Single]


class ClaimRow(msgspec.Struct, frozen=True, gc=False):
    """A claim as it is stored."""

    number: int
    count: int
    bytes: int
    claimed_at: int
    wanted: int
    complete: int
    fate: int


T = TypeVar("T")
Deciding = Generator[object, Any, T]
"""A decision: yields needs, receives facts, returns its outcome."""


class Queues(Protocol):
    """The settings of queues as they are now; a queue that was deleted is None."""

    def queue_of_key(self, key: int) -> Queue | None: ...

    def queue_of_id(self, queue_id: str) -> Queue | None: ...
