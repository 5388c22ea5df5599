"""Token buckets: how often something may happen, by key."""

SWEEP_COUNT = 10_000


class Throttle:
    """One bucket a key; a bucket that has filled up again is as good as none and is forgotten."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, int, float]] = {}  # tokens left, as of when, when full again

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_ms(self, key: str, *, rate: float, burst: float, now: int) -> int:
        """Take one token at `rate` a second; 0, or for how long there is none to take."""
        known = self._buckets.get(key)
        tokens = burst if known is None else min(burst, known[0] + (now - known[1]) * rate / 1_000)
        if tokens < 1:
            return max(1, round((1 - tokens) * 1_000 / rate))
        if known is None and len(self._buckets) >= SWEEP_COUNT:
            self._sweep(now)
        tokens -= 1
        self._buckets[key] = (tokens, now, now + (burst - tokens) * 1_000 / rate)
        return 0

    def left(self, key: str, *, rate: float, burst: float, now: int) -> tuple[int, int]:
        """How many tokens could be taken at once, and when there will be as many as ever."""
        known = self._buckets.get(key)
        if known is None:
            return int(burst), now
        return int(min(burst, known[0] + (now - known[1]) * rate / 1_000)), max(now, round(known[2]))

    def _sweep(self, now: int) -> None:
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if bucket[2] > now}
