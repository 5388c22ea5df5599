"""Which numbers the shards of a store give out.

Every number that a store gives out, the seq of a message or the offset of an event, says where it was given. Shard `k`
starts at `k * 2**45`, so a store of one shard has plain numbers, and 64 shards stay below 2**51. What is above, up to
2**53, is given out in *eras*: a shard that takes over a FIFO queue whose messages have higher seqs than its own goes on
in a new era, so that new messages still come after old ones.
"""

from typing import NamedTuple

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


class Newest(NamedTuple):
    """Bounds a purge or a move: the newest seq of a queue's shard when it began, and when that was."""

    seq: int
    at: int

    def covers(self, entered_at: int, seq: int) -> bool:
        """Whether a message was there.

        A seq from another range of numbers says nothing: its message came by a move, or the queue has moved since.
        """
        return seq <= self.seq if range_end(seq) == range_end(self.seq) else entered_at <= self.at


def range_end(seq: int) -> int:
    """Where the range of numbers ends that a seq is of."""
    if seq < FIRST_ERA:
        return (seq // STEP + 1) * STEP
    return (seq // ERA_SPAN + 1) * ERA_SPAN
