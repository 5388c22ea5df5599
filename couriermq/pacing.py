"""Long operations in small steps, so that other work goes on between them."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter

from couriermq.storage.base import Moved

FEWEST, FIRST, MOST = 25, 100, 1_000
"""Messages in a step."""
SHORT_SECONDS, LONG_SECONDS = 0.005, 0.015
"""A step that takes less may be larger the next time; one that takes more must be smaller."""

Step = Callable[[str | None, int], Awaitable[Moved]]
"""Takes up to so many messages after a cursor."""


async def in_steps(step: Step, *, told: Callable[[int], Awaitable[None]] | None = None) -> int:
    """Carry out step after step to the end, with a pause as long as the step after each; how many messages it was.

    A step takes longer while the store has much to do. Then the steps become smaller and the pauses longer.
    """
    after, total, limit = None, 0, FIRST
    while True:
        started = perf_counter()
        moved = await step(after, limit)
        seconds = perf_counter() - started
        after, total = moved.next, total + moved.count
        if told is not None:
            await told(total)
        if after is None:
            return total
        limit = _next_limit(limit, seconds)
        await asyncio.sleep(seconds)


def _next_limit(limit: int, seconds: float) -> int:
    if seconds > LONG_SECONDS:
        return max(FEWEST, limit // 2)
    return min(MOST, 2 * limit) if seconds < SHORT_SECONDS else limit
