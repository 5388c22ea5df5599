"""Where a page of a queue's messages ended."""

import re

import msgspec

from couriermq.core.errors import Invalid
from couriermq.core.lifecycle.members import Member, entrance_of

_CURSOR = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)


class Moved(msgspec.Struct, frozen=True):
    """How many messages one step of a purge or a move took, and where the next step goes on, if there is one."""

    count: int
    next: str | None = None


def read_cursor(after: str | None) -> tuple[int, int]:
    """When the last message that was seen came in, and its seq."""
    if after is None:
        return -1, -1
    found = _CURSOR.fullmatch(after)
    if found is None:
        raise Invalid("the cursor is not one that a page ended with", field="after")
    return int(found[1]), int(found[2])


def write_cursor(member: Member) -> str:
    entered_at, seq = entrance_of(member)
    return f"{entered_at}-{seq}"
