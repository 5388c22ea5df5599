"""Duties: work that is done once, however many nodes there are. At most one node holds a duty at any time."""

import functools
from collections.abc import Sequence
from hashlib import blake2b

UPKEEP = "upkeep"
"""Looking after what belongs to nobody in particular, such as the age of the journal."""
ARCHIVE = "archive"
"""Sealing the journal."""
DELIVERY = tuple(f"delivery/{part}" for part in range(64))
"""Delivering to listeners, in parts."""
DUTIES = (UPKEEP, ARCHIVE, *DELIVERY)


@functools.lru_cache(maxsize=65_536)
def delivery_to(listener_id: str) -> str:
    """The duty that a listener is part of."""
    return DELIVERY[_weight(listener_id) % len(DELIVERY)]


def owner(duty: str, living: Sequence[int]) -> int | None:
    """Which of the living nodes a duty belongs to; when one comes or goes, only its own duties move."""
    return max(living, key=lambda node: _weight(f"{duty} {node}"), default=None)


def _weight(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")
