"""Token buckets: how often something may happen, by key."""

from collections.abc import Hashable

BUCKET_COUNT = 100_000


class Throttle:
    """One bucket a key. At most `most` are kept: the one that was not used for the longest time goes first."""

    def __init__(self, *, rate: float = 0.0, burst: float = 0.0, resume: float = 1.0, most: int = BUCKET_COUNT) -> None:
        """Once a bucket is empty, `blocked_ms` blocks until `resume` tokens are there again."""
        self._rate = rate
        self._burst = burst
        self._resume = resume
        self._most = most
        self._buckets: dict[Hashable, tuple[float, int, bool]] = {}
        """Tokens left, as of when, and whether it was empty and is not yet resumed; the last used stands last."""

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_ms(self, key: Hashable, *, now: int, rate: float | None = None, burst: float | None = None) -> int:
        """Take one token at `rate` a second; 0, or for how long there is none to take."""
        rate, burst = rate or self._rate, burst or self._burst
        tokens = self._tokens(key, rate, burst, now)
        taken = 1 if tokens >= 1 else 0
        known = self._buckets.pop(key, None)
        was_empty = known is not None and known[2] and tokens < self._resume
        self._buckets[key] = (tokens - taken, now, was_empty or tokens - taken < 1)
        if len(self._buckets) > self._most:
            del self._buckets[next(iter(self._buckets))]
        return 0 if taken else _until(1, tokens, rate)

    def blocked_ms(self, key: Hashable, *, now: int) -> int:
        """For how long the bucket blocks; takes no token."""
        known = self._buckets.get(key)
        if known is None or not known[2]:
            return 0
        tokens = self._tokens(key, self._rate, self._burst, now)
        return 0 if tokens >= self._resume else _until(self._resume, tokens, self._rate)

    def left(self, key: Hashable, *, rate: float, burst: float, now: int) -> tuple[int, int]:
        """How many tokens could be taken at once, and when there will be as many as ever."""
        tokens = self._tokens(key, rate, burst, now)
        return int(tokens), now + round((burst - tokens) * 1_000 / rate)

    def _tokens(self, key: Hashable, rate: float, burst: float, now: int) -> float:
        known = self._buckets.get(key)
        return burst if known is None else min(burst, known[0] + (now - known[1]) * rate / 1_000)


def _until(wanted: float, tokens: float, rate: float) -> int:
    return max(1, round((wanted - tokens) * 1_000 / rate))
