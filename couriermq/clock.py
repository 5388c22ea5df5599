"""Time and randomness enter Courier here and nowhere else."""

import asyncio
import contextlib
import heapq
import itertools
import secrets
import time
from typing import Protocol

ID_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
ID_LENGTH = 21


class Clock(Protocol):
    """What tells the time, waits for it, and throws the dice."""

    def now(self) -> int:
        """Epoch milliseconds; never runs backwards."""

    async def sleep_until(self, at: int) -> None:
        """Return once `now()` has reached `at`."""

    def start_at(self, at: int) -> None:
        """Go on from `at` if it is earlier now: the wall clock was set back since then."""

    def wall(self) -> int:
        """Epoch milliseconds of the system's clock as it is set now, for others to compare with theirs."""

    def random_bytes(self, count: int) -> bytes: ...


_UPTIME: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Counts a suspended laptop's sleep too, where the system offers it."""


class SystemClock:
    """The wall clock as it stood at the start, or a later instant, carried on by a clock that nobody sets.

    A step of the wall clock would otherwise end leases early or make them last for hours.
    """

    def __init__(self) -> None:
        self._wall_minus_uptime_ns = time.time_ns() - _uptime_ns()

    def now(self) -> int:
        return (self._wall_minus_uptime_ns + _uptime_ns()) // 1_000_000

    async def sleep_until(self, at: int) -> None:
        while (remaining_ms := at - self.now()) > 0:  # noqa: ASYNC110 -- no poll: one sleep, unless it wakes early
            await asyncio.sleep(remaining_ms / 1_000)

    def start_at(self, at: int) -> None:
        self._wall_minus_uptime_ns += max(0, at - self.now()) * 1_000_000

    def wall(self) -> int:
        return time.time_ns() // 1_000_000

    def random_bytes(self, count: int) -> bytes:
        return secrets.token_bytes(count)


def _uptime_ns() -> int:
    return time.clock_gettime_ns(_UPTIME)


class FakeClock:
    """A clock moved by hand; whoever sleeps until a passed instant is woken by `advance`."""

    def __init__(self, now: int = 1_700_000_000_000, *, seed: int = 7) -> None:
        self._now = now
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._dice = itertools.count(seed)
        self.wall_ahead_ms = 0

    def now(self) -> int:
        return self._now

    def advance(self, *, ms: int) -> None:
        self._now += ms
        while self._sleepers and self._sleepers[0][0] <= self._now:
            future = heapq.heappop(self._sleepers)[2]
            if not future.done():
                with contextlib.suppress(RuntimeError):  # its loop is closed: nobody waits any more
                    future.get_loop().call_soon_threadsafe(_wake, future)

    async def sleep_until(self, at: int) -> None:
        while self._now < at:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._sleepers, (at, next(self._order), future))
            await future

    def start_at(self, at: int) -> None:
        self.advance(ms=max(0, at - self._now))

    def wall(self) -> int:
        return self._now + self.wall_ahead_ms

    def random_bytes(self, count: int) -> bytes:
        return next(self._dice).to_bytes(count, "big")


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def fresh_key() -> bytes:
    """A secret that a store seals its tokens with; made once in its life."""
    return secrets.token_bytes(32)


def mint_id(clock: Clock) -> str:
    """A new id that every dialect can carry: 21 letters and digits."""
    number = int.from_bytes(clock.random_bytes(16), "big")
    letters = []
    for _ in range(ID_LENGTH):
        number, index = divmod(number, len(ID_ALPHABET))
        letters.append(ID_ALPHABET[index])
    return "".join(letters)
