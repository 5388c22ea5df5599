"""Removing chosen messages: which of them may go, and what came of it."""

from enum import StrEnum

import msgspec

from couriermq.core.model import State


class Removable(StrEnum):
    """Which messages a removal takes; it is judged in the transaction that removes them."""

    ANY = "any"
    UNLEASED = "unleased"
    """Those that nobody holds."""
    UNTOUCHED = "untouched"
    """Those that wait and that nobody has received."""

    def allows(self, state: int, attempts: int) -> bool:
        if self is Removable.ANY:
            return True
        return state != State.LEASED and (self is Removable.UNLEASED or not attempts)


class Removal(msgspec.Struct, frozen=True):
    """The seqs of chosen messages that were there: those that were removed, and those that had to stay."""

    gone: list[int]
    kept: list[int]
