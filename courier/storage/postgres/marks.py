"""Where to begin to look. What is taken leaves dead entries at the front of an index until vacuum may remove them.

A transaction that somebody holds open keeps vacuum from it for as long as it lasts, and every look from the very front
would have to step over more and more of them. So a node remembers up to where there was nothing left, and begins a
little before that. Now and then, and whenever it lets time pass, it looks from the front all the same: another node may
have put something there.
"""

from collections.abc import Callable

MARGIN_MS = 2_000
"""How much earlier to begin: clocks of nodes differ, and commits take their time."""
FULL_SECONDS = 5.0


class Marks:
    """What one node knows of each queue."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._clock = clock
        self._full_at: dict[int, float] = {}
        self._bundles: dict[int, int] = {}
        self._ready: dict[int, int] = {}
        self._due: dict[int, int] = {}

    def claim(self, key: int) -> tuple[int, int]:
        """From when on to look for ready messages and for bundles; 0 is the very front."""
        now = self._clock()
        if now - self._full_at.get(key, -FULL_SECONDS) >= FULL_SECONDS:
            self._full_at[key] = now
            return 0, 0
        return self._ready.get(key, 0) - MARGIN_MS, self._bundles.get(key, 0) - MARGIN_MS

    def claimed(self, key: int, *, ready: int | None, bundle: int | None) -> None:
        """The oldest that was there; none where there was nothing, which says as much as was known."""
        if ready is not None:
            self._ready[key] = ready
        if bundle is not None:
            self._bundles[key] = bundle

    def readied(self, key: int, at: int) -> None:
        """Something has become ready, as of then."""
        if at < self._ready.get(key, 0):
            self._ready[key] = at

    def bundled(self, key: int, at: int) -> None:
        """Something that came then waits in a bundle."""
        if at < self._bundles.get(key, 0):
            self._bundles[key] = at

    def due(self, key: int) -> int:
        """From when on to look for what has come to its end."""
        return self._due.get(key, 0) - MARGIN_MS

    def passed(self, key: int, now: int) -> None:
        """All has been done that time did to the queue by then."""
        self._due[key] = max(now, self._due.get(key, 0))

    def forget(self, key: int) -> None:
        for kept in (self._full_at, self._bundles, self._ready, self._due):
            kept.pop(key, None)
