"""A bound on the time of each test, so that a test that waits for what never comes fails instead of hanging.

An async test gets a timeout in its event loop first: its traceback shows what it awaits. The alarm is for all other
tests, for fixtures, and for a loop that is itself blocked.
"""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from tests.support import soak

FAST_SECONDS = 30.0
SLOW_SECONDS = 600.0
GRACE_SECONDS = 5.0
"""How much later than the loop's timeout the alarm comes."""
AGAIN_SECONDS = 2.0
"""A callback of an event loop drops the exception, so the alarm repeats until it meets the test."""
LONGER_SECONDS = soak.SECONDS + soak.FUZZ_SECONDS
"""What `make soak` and `make fuzz` add."""
SLOW_MARKERS = ("slow", "cluster", "alone", "spark")


class TimeLimitExceeded(BaseException):
    """Not an `Exception`: Hypothesis would run the example again, and code under test would handle it."""


def seconds_for(item: pytest.Item) -> float:
    """How long a test may take: many times what it needs on a busy machine."""
    is_slow = any(item.get_closest_marker(name) for name in SLOW_MARKERS)
    return (SLOW_SECONDS if is_slow else FAST_SECONDS) + LONGER_SECONDS


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TimeLimitExceeded` in the main thread when the block takes longer."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise TimeLimitExceeded(f"it took longer than {seconds:g} s")

    kept = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, kept)
