"""Reading across the places where offsets jump, because a new incarnation of the store began.

Executors of Spark load this without the server's packages.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Jump(NamedTuple):
    """Offsets `end` up to, not including, `first` belong to no event that the store has."""

    end: int
    first: int


def skip(jumps: Sequence[Jump], offset: int) -> int:
    """The offset, or the first one after the jump that it is in; jumps come oldest first, one may follow another."""
    for jump in jumps:
        if jump.end <= offset < jump.first:
            offset = jump.first
    return offset


def is_lost(jumps: Sequence[Jump], offset: int) -> bool:
    """Whether only an earlier incarnation can have given it: it lies in a jump, and not where that begins."""
    return any(jump.end < offset < jump.first for jump in jumps)


def end_of_stretch(jumps: Sequence[Jump], offset: int) -> int | None:
    """Where the offsets jump next after this one; None where they do not."""
    return min((jump.end for jump in jumps if jump.end > offset), default=None)


def stretches(jumps: Sequence[Jump], start: int, stop: int) -> list[tuple[int, int]]:
    """The offsets from `start` up to `stop` without those in jumps, as ranges."""
    found = []
    for jump in sorted(jumps, key=lambda one: one.end):
        if jump.first <= start or jump.end >= stop:
            continue
        if start < jump.end:
            found.append((start, jump.end))
        start = jump.first
    return [*found, (start, stop)] if start < stop else found


def count(jumps: Sequence[Jump], start: int, stop: int) -> int:
    """How many offsets there are from `start` up to `stop` without those in jumps."""
    return sum(end - begin for begin, end in stretches(jumps, start, stop))


def forward(jumps: Sequence[Jump], start: int, steps: int) -> int:
    """The offset `steps` events after `start`."""
    for jump in sorted(jumps, key=lambda one: one.end):
        if jump.end <= start < jump.first:
            start = jump.first
        elif start < jump.end < start + steps:
            start, steps = jump.first, steps - (jump.end - start)
    return start + steps


def backward(jumps: Sequence[Jump], stop: int, steps: int) -> int:
    """The offset `steps` events before `stop`; negative where there are fewer."""
    for jump in sorted(jumps, key=lambda one: -one.end):
        if jump.first <= stop and stop - steps < jump.first:
            stop, steps = jump.end, steps - (stop - jump.first)
    return stop - steps
