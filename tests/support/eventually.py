"""Waiting for what another process, a thread or a socket does, where a test has no clock to move.

`eventually` is for async tests and `eventually_sync` for the others. Both look again and again until what they see is
right (true, unless the test says otherwise), and return it. When the time is over they fail and show what they saw.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

PATIENCE_SECONDS = 25.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.001, 0.02
SHOWN_CHARACTERS = 400

Seen = TypeVar("Seen")
NOTHING_YET = object()


@overload
async def eventually(
    look: Callable[[], Awaitable[Seen]], right: Callable[[Seen], object] = bool, *, seconds: float = PATIENCE_SECONDS
) -> Seen: ...


@overload
async def eventually(
    look: Callable[[], Seen], right: Callable[[Seen], object] = bool, *, seconds: float = PATIENCE_SECONDS
) -> Seen: ...


async def eventually(
    look: Callable[[], Any], right: Callable[[Any], object] = bool, *, seconds: float = PATIENCE_SECONDS
) -> Any:
    """The first right thing that `look` gives, or that what it gives results in when awaited."""
    seen: object = NOTHING_YET
    pause = FIRST_PAUSE_SECONDS
    try:
        async with asyncio.timeout(seconds) as limit:
            while True:
                found = look()
                seen = await found if inspect.isawaitable(found) else found
                if right(seen):
                    return seen
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
    except TimeoutError:
        if not limit.expired():
            raise
        raise AssertionError(_failure(look, seen, seconds)) from None


def eventually_sync(
    look: Callable[[], Seen],
    right: Callable[[Seen], object] = bool,
    *,
    seconds: float = PATIENCE_SECONDS,
    tell: Callable[[], str] = str,
) -> Seen:
    """The first right thing that `look` gives; `tell` has more to show if none comes, such as the end of a log."""
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE_SECONDS
    while not right(seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{_failure(look, seen, seconds)}\n{tell()}")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
    return seen


def _failure(look: Callable[[], object], seen: object, seconds: float) -> str:
    last = "nothing: it never came back" if seen is NOTHING_YET else _short(seen)
    lines = [f"not within {seconds:g} s: {_source(look)}", f"last seen: {last}"]
    if inspect.isfunction(look):
        lines += [f"{name} = {_short(value)}" for name, value in inspect.getclosurevars(look).nonlocals.items()]
    return "\n".join(lines)


def _source(look: Callable[[], object]) -> str:
    try:
        return " ".join(inspect.getsource(look).split())
    except (OSError, TypeError):
        return repr(look)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"
