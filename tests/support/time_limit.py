"""A bound on the time of each test, so that a test that waits for what never comes fails instead of hanging.

The first alarm cancels an async test: its traceback then shows what it awaits. Every other test, a fixture, and an
event loop that is itself blocked are interrupted where they are. The limit is of real time: a test may move the clock
of its event loop.
"""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from types import FrameType
from typing import Any

import pytest

from tests.support import soak

FAST_SECONDS = 30.0
SLOW_SECONDS = 600.0
AGAIN_SECONDS = 2.0
"""A callback of an event loop drops an exception, so the alarm repeats until it meets the test."""
LONGER_SECONDS = soak.SECONDS + soak.FUZZ_SECONDS
"""What `make soak` and `make fuzz` add."""
SLOW_MARKERS = ("slow", "cluster", "alone", "postgres", "spark")
SHARE_AFTER_FAILURE = 1 / 6
"""The run has failed once a test has hung; where many hang for the same reason, the others need not take as long."""

_awaited: list["asyncio.Task[Any]"] = []
"""The async test that runs now and was not cancelled yet."""
_exceeded: list[float] = []
"""The limits that tests of this process have exceeded."""


class TimeLimitExceeded(BaseException):
    """Not an `Exception`: Hypothesis would run the example again, and code under test would handle it."""


def seconds_for(item: pytest.Item) -> float:
    """How long a test may take: many times what it needs on a busy machine."""
    is_slow = any(item.get_closest_marker(name) for name in SLOW_MARKERS)
    usual = SLOW_SECONDS if is_slow else FAST_SECONDS
    return (usual * SHARE_AFTER_FAILURE if _exceeded else usual) + LONGER_SECONDS


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TimeLimitExceeded` in the main thread when the block takes longer, or cancel the async test in it."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        _exceeded.append(seconds)
        if _awaited:
            task = _awaited.pop()
            task.get_loop().call_soon_threadsafe(task.cancel)
        else:
            raise TimeLimitExceeded(f"it took longer than {seconds:g} s")

    kept = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, kept)
        _awaited.clear()


async def cancellable(test: Coroutine[Any, Any, None]) -> None:
    """Run an async test within `limited`."""
    task = asyncio.current_task()
    assert task is not None
    _awaited.append(task)
    try:
        await test
    except asyncio.CancelledError as error:
        if task in _awaited:
            raise
        raise TimeLimitExceeded("it took too long; the error above shows what the test awaited") from error
