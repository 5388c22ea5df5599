"""Shards: what a store of several databases consists of, and which numbers each of them gives.

Every number that a store gives out, the seq of a message or the offset of an event, says where it was given. Shard `k`
starts at `k * 2**45`, so a store of one shard has plain numbers, and 64 shards stay below 2**51. What is above, up to
2**53, is given out in *eras*: a shard that takes over a FIFO queue whose messages have higher seqs than its own goes on
in a new era, so that new messages still come after old ones.
"""

from enum import StrEnum

import msgspec

STEP = 2**45
"""Numbers that a shard has; all of them, eras included, stay exact in JSON."""
MOST_SHARDS = 64
ERA_SPAN = 2**38
FIRST_ERA = MOST_SHARDS * STEP
LAST_NUMBER = 2**53
OUTBOX = 2**31 - MOST_SHARDS
"""Queue keys from here on are the store's own: parcels wait there for another shard, and nothing of it is journaled."""


def shard_of(offset: int) -> int:
    """The shard in whose journal an offset is."""
    return offset // STEP


def first_of(shard: int) -> int:
    return shard * STEP


def era_start(era: int) -> int:
    return FIRST_ERA + era * ERA_SPAN


def was_sent_by(seq: int, upto_seq: int) -> bool:
    """Whether a message of a shard was there when `upto_seq` was the newest seq of that shard.

    A seq from another range of numbers was given elsewhere: its message came by a move, not by a later send.
    """
    return seq <= upto_seq or _range_end(upto_seq) <= seq


def _range_end(seq: int) -> int:
    if seq < FIRST_ERA:
        return (seq // STEP + 1) * STEP
    return (seq // ERA_SPAN + 1) * ERA_SPAN


class ShardState(StrEnum):
    ACTIVE = "active"
    DRAINING = "draining"
    """It gets no new queues, and those it has are moved away one by one."""


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """One database of a store. Number 0, the home, also holds the control plane."""

    number: int
    name: str
    url: str
    weight: int = 1
    """Its share of new queues, against the weights of the others; 0 means none."""
    state: ShardState = ShardState.ACTIVE

    @property
    def share(self) -> int:
        return self.weight if self.state is ShardState.ACTIVE else 0


HOME = Shard(number=0, name="home", url="")


class RelocationState(StrEnum):
    COPYING = "copying"
    FROZEN = "frozen"
    """The queue waits for the last changes to be copied; for callers it is unavailable for a moment."""
    CLEANING = "cleaning"
    """The queue lives in its new place; the old copy is being removed."""
    UNDOING = "undoing"
    DONE = "done"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        return self in {RelocationState.DONE, RelocationState.FAILED}


class Relocation(msgspec.Struct, frozen=True, kw_only=True):
    """A queue, with the queues of its listeners, on its way from one shard to another."""

    tenant: str
    queue_id: str
    queue: str
    source: int
    target: int
    state: RelocationState = RelocationState.COPYING
    copied_count: int = 0
    total_count: int = 0
    runner: str = ""
    """Which run of which node does it; another one that takes over writes its own here first."""
    beat: int = 0
    frozen_ms: int | None = None
    """How long callers had to wait."""
    reason: str | None = None
    started_at: int = 0
    changed_at: int = 0


class ShardFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A shard as an operator sees it."""

    shard: Shard
    queue_count: int
    trouble: str | None = None
    """Why it takes no messages now, if so."""
