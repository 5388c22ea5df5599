"""Lanes: the parts of a journal that are written independently of each other.

Offsets are gapless within a lane; lanes have no common order. The upper bits of an offset are its lane: a lane has
2**41 offsets and a shard 16 lanes, so lane `j` of shard `s` is number `16 * s + j`.

In files, checkpoints, cursors and on the wire a lane has a name: `s` for the first lane of a shard, `s.j` for others.
Before there were lanes, a shard's number stood there and meant its whole journal, which is its first lane now.
"""

import re

from couriermq.core.shards import STEP

SHARD_LANES = 16
LANE_SIZE = STEP // SHARD_LANES

_NAME = re.compile(r"(\d{1,2})(?:\.([1-9]|1[0-5]))?", re.ASCII)


def lane_of(offset: int) -> int:
    return offset // LANE_SIZE


def first_of_lane(lane: int) -> int:
    """The offset that a lane begins with."""
    return lane * LANE_SIZE


def first_lane(shard: int) -> int:
    """The lane of a shard that always exists."""
    return shard * SHARD_LANES


def is_other(lane: int) -> bool:
    """Whether it is another than the first one of its shard."""
    return lane % SHARD_LANES != 0


def shard_of_lane(lane: int) -> int:
    return lane // SHARD_LANES


def lane_name(lane: int) -> str:
    shard, number = divmod(lane, SHARD_LANES)
    return f"{shard}.{number}" if number else str(shard)


def lane_named(name: str) -> int:
    """Raises ValueError for a text that names no lane."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} does not name a lane of the journal; 0 and 0.3 do")
    return int(found[1]) * SHARD_LANES + int(found[2] or 0)
