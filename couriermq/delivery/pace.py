"""How often a listener may be called: evenly spaced, with room for a small burst."""

import math

import msgspec

from couriermq.core.model import SECOND

BURST_MS = 100


class Pace(msgspec.Struct):
    """Remembers only when the next call would be due if all had come evenly."""

    next_at: float = 0.0

    def allowance(self, requests_per_second: float, *, now: int) -> int:
        """How many calls may begin now."""
        gap = SECOND / requests_per_second
        spare = _burst(gap) - max(self.next_at - now, 0.0)
        return max(0, int(spare / gap + 1e-6))

    def spend(self, count: int, requests_per_second: float, *, now: int) -> None:
        self.next_at = max(self.next_at, now) + count * SECOND / requests_per_second

    def ready_at(self, requests_per_second: float) -> int:
        """When at least one call may begin."""
        gap = SECOND / requests_per_second
        return math.ceil(self.next_at + gap - _burst(gap))


def _burst(gap: float) -> float:
    """A little more than one call at a time, where the gaps are short."""
    return max(gap, BURST_MS)
