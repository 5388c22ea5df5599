"""Incarnations of a store: a restore begins a new one, which gives out numbers that no earlier one can have given.

The end of what was there before a restore is lost, but not the numbers in it: clients still have receipts, readers
offsets. So seqs and offsets jump ahead, farther than the lost part can have come. Readers know where.
"""

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from couriermq.core.events import Event, EventKind
from couriermq.core.jumps import Jump
from couriermq.core.lanes import first_of_lane, lane_of
from couriermq.core.model import DAY

JUMP = 2**32
"""Numbers that a jump passes over at least."""
PER_MS, PER_MS_LATER = 64, 1
"""Numbers that it passes over besides for each millisecond since the last event, in the first ten days and later: two
restores of the same copy do not give out the same numbers either, because the second one goes farther."""
RECENT_MS = 10 * DAY


class NumbersUsedUp(Exception):
    """The store cannot begin another incarnation; the text says what to do."""


class Incarnation(msgspec.Struct, frozen=True, kw_only=True):
    """From one restore to the next."""

    number: int
    tag: int
    """A random number that tells apart two that were begun from the same copy; 0 for a store's first incarnation."""
    began_at: int = 0
    reason: str = ""
    first_seq: int = 1
    jumps: tuple[Jump, ...] = ()
    """Where the offsets of each journal jumped when it began."""
    catalog_version: int | None = None
    """That of the control plane which was restored, where several nodes share a store."""

    @property
    def name(self) -> str:
        return f"{self.number}-{self.tag:016x}" if self.tag else str(self.number)


class Stamp(msgspec.Struct, frozen=True):
    """What readers of the journal remember, to notice that it is no longer the same."""

    store: str
    incarnation: str

    @property
    def text(self) -> str:
        return f"{self.store}/{self.incarnation}"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Which store it is, and its incarnations, oldest first."""

    store: str
    incarnations: tuple[Incarnation, ...] = (Incarnation(number=1, tag=0),)

    @property
    def present(self) -> Incarnation:
        return self.incarnations[-1]

    @property
    def stamp(self) -> Stamp:
        return Stamp(self.store, self.present.name)

    @property
    def tags(self) -> tuple[int, ...]:
        return tuple(one.tag for one in self.incarnations)

    def versions_since(self, known: "Identity") -> list[int]:
        """The versions of the control plane from which incarnations went on that `known` does not have."""
        missed = [one for one in self.incarnations if one not in known.incarnations]
        return [one.catalog_version for one in missed if one.catalog_version is not None]

    @property
    def last_epoch(self) -> int:
        """What epochs of jobs that earlier incarnations opened do not exceed: epochs jump as far as seqs."""
        return self.present.first_seq - 1

    @property
    def jumps(self) -> tuple[Jump, ...]:
        return tuple(jump for one in self.incarnations for jump in one.jumps)


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """What a restored store would go on with, and where the range of its seqs ends."""

    next_seq: int
    seq_end: int
    next_offsets: Sequence[int]
    """One for each lane that has events."""
    newest_at: int
    """The instant of the newest event."""
    catalog_version: int | None = None


def begin(identity: Identity, counters: Counters, *, now: int, tag: int, reason: str) -> Identity:
    """The identity with one incarnation more; raises NumbersUsedUp where the numbers do not allow it."""
    far = distance(now - counters.newest_at)
    jumps = tuple(Jump(start, _jump(start, far, first_of_lane(lane_of(start) + 1))) for start in counters.next_offsets)
    fresh = Incarnation(
        number=identity.present.number + 1,
        tag=tag or 1,
        began_at=now,
        reason=reason,
        first_seq=_jump(counters.next_seq, far, counters.seq_end),
        jumps=jumps,
        catalog_version=counters.catalog_version,
    )
    return msgspec.structs.replace(identity, incarnations=(*identity.incarnations, fresh))


def distance(elapsed_ms: int) -> int:
    """How far to jump so long after the last event; farther than the lost end can have come."""
    recent = min(max(0, elapsed_ms), RECENT_MS)
    return JUMP + PER_MS * recent + PER_MS_LATER * (max(0, elapsed_ms) - recent)


def _jump(number: int, far: int, end: int) -> int:
    if number + far + JUMP > end:
        raise NumbersUsedUp(
            f"the store cannot begin another incarnation: after {number} it would go on with {number + far}, and its"
            f" numbers end at {end}; export its queues and import them into a new store"
        )
    return number + far


def event_of(identity: Identity) -> Event:
    """What the journal tells of it."""
    present = identity.present
    detail = {"store": identity.store, "incarnation": present.name, "reason": present.reason}
    return Event(EventKind.INCARNATION_BEGAN.value, present.began_at, "", detail=detail)


def combined(identities: Sequence[Identity]) -> Stamp:
    """That of a store of several databases, each of which may have been restored on its own; the first is the home."""
    home = identities[0]
    if all(len(one.incarnations) == 1 for one in identities[1:]):
        return home.stamp
    number = 1 + sum(len(one.incarnations) - 1 for one in identities)
    tags = b"".join(one.present.tag.to_bytes(8, "big") for one in identities)
    return Stamp(home.store, f"{number}-{blake2b(tags, digest_size=8).hexdigest()}")
