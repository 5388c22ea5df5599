"""Where a number belongs: the shard that gave out an offset or a seq stands in the number's top bits.

A store that is not divided is shard 0, whose numbers are plain.
"""

STEP = 2**45
"""Numbers that a shard has; with 256 shards all of them stay exact in JSON."""


def shard_of(number: int) -> int:
    return number // STEP


def first_of(shard: int) -> int:
    """The lowest number of a shard."""
    return shard * STEP
