"""What a decision may ask an engine for. Facts include what the unit has changed so far."""

from collections.abc import Collection, Generator, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from couriermq.core.lifecycle.rows import Pack, Single
from couriermq.core.model import Claim, Job, Queue


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
    """(when the next delay or lease ends, when the next own retention does, when the oldest other message came in).

    What has ended by `now`, or came in by `until`, and another node is about to change need not be in it.
    """

    queue: int
    now: int
    until: int


class PointingTo(msgspec.Struct, frozen=True, gc=False):
    """All rows that point to a journal row, or the single of a seq: a `Found`."""

    start: int | None
    seq: int | None = None


class Copied(msgspec.Struct, frozen=True, gc=False):
    """Which of these messages have copies that are still on their way to listeners: a set of seqs."""

    origins: Collection[int]


class Dedup(msgspec.Struct, frozen=True, gc=False):
    """For each key that is remembered: (until when, seq, id)."""

    keys: Sequence[tuple[int, str]]


class FreeGroups(msgspec.Struct, frozen=True, gc=False):
    """Names of FIFO groups that nobody holds and whose heads are ready, longest ready first: those that are so by
    `now`, then those that a node whose clock is ahead has made ready."""

    queue: int
    now: int
    limit: int
    by: int | None = None
    """Only those whose heads were ready at this instant."""


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


class ClaimPart(msgspec.Struct, frozen=True, gc=False):
    """The part of a claim that a position is in, as (position of its first message, seqs), or None."""

    queue: int
    job: str
    number: int
    position: int


class DecidedQueues(msgspec.Struct, frozen=True, gc=False):
    """Keys of the queues that have claims which are to be acked or released."""


class JobsOf(msgspec.Struct, frozen=True, gc=False):
    """Every `Job` of a queue with the claims that it holds, by name."""

    queue: int


class PublicationOf(msgspec.Struct, frozen=True, gc=False):
    """The newest `Publication` of a series, or None."""

    target: str
    series: str


class StageOf(msgspec.Struct, frozen=True, gc=False):
    """The `HeldStage` that can be published, or None."""

    target: str
    name: str


class Exclusive(msgspec.Struct, frozen=True, gc=False):
    """Nobody else changes these queues until the commit; None."""

    queues: Sequence[int]


class Seqs(msgspec.Struct, frozen=True, gc=False):
    """(the first of as many seqs in a row, the end of those that may be used)."""

    count: int
    is_fresh: bool
    """They are higher than every seq that was given out before, by whichever node."""


class Totals(msgspec.Struct, frozen=True, gc=False):
    """The figures of a queue without those of the unit's tally, with the queue locked: see `Unit.totals`.

    Who leases from a queue with `max_leased` asks for them first. Who ends a lease does not wait for the lock.
    """

    queue: int


class NextChunk(msgspec.Struct, frozen=True, gc=False):
    """The first chunk that a stage holds: a `StagedChunk`, or None."""

    target: str
    name: str


class NextLanding(msgspec.Struct, frozen=True, gc=False):
    """The oldest stage that is published but not sent, as (number, target, stage, published at, principal), or None."""


class StagedFor(msgspec.Struct, frozen=True, gc=False):
    """What is staged for these targets: rows of (target, stage, count, head, number of such chunks, bytes)."""

    targets: Sequence[str]


class OldStages(msgspec.Struct, frozen=True, gc=False):
    """Whether there are stages from `staged_until` or before, or publications from `published_until` or before."""

    staged_until: int
    published_until: int


class Found(msgspec.Struct, gc=False):
    """Packs and singles, each in the order that was asked for."""

    packs: list[Pack]
    singles: list[Single]

    @property
    def count(self) -> int:
        return sum([pack.remaining for pack in self.packs]) + len(self.singles)


class HeldStage(msgspec.Struct, frozen=True, gc=False):
    """What a stage holds, when its first chunk came, and for the queues with which keys it is."""

    count: int
    part_count: int
    staged_at: int
    keys: set[int]


class StagedChunk(msgspec.Struct, frozen=True, gc=False):
    """Messages that wait for their publication."""

    part: int
    number: int
    count: int
    parcels: bytes | None
    """None where they are damaged."""


class ClaimRow(msgspec.Struct, frozen=True, gc=False):
    """A claim as it is stored."""

    number: int
    count: int
    bytes: int
    claimed_at: int
    wanted: int
    complete: int
    fate: int


def jobs_of(jobs: Iterable[Sequence[Any]], claims: Iterable[Sequence[Any]]) -> list[Job]:
    """Jobs from rows of (name, epoch, done, opened at) and (job, number, count, bytes, claimed at)."""
    held: dict[str, list[Claim]] = {}
    for job, number, count, size, claimed_at in claims:
        held.setdefault(job, []).append(Claim(number=number, count=count, byte_count=size, claimed_at=claimed_at))
    return [
        Job(name=name, epoch=epoch, done=done, opened_at=opened_at, claims=tuple(held.get(name, ())))
        for name, epoch, done, opened_at in jobs
    ]


T = TypeVar("T")
Deciding = Generator[object, Any, T]
"""A decision: yields needs, receives facts, returns its outcome."""


class Queues(Protocol):
    """The settings of queues as they are now; a queue that was deleted is None."""

    def queue_of_key(self, key: int) -> Queue | None: ...

    def queue_of_id(self, queue_id: str) -> Queue | None: ...
