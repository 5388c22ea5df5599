"""Where to begin to look. What is taken leaves dead entries at the front of an index until vacuum may remove them.

A transaction that somebody holds open keeps vacuum from it for as long as it lasts, and every look from the very front
would have to step over more and more of them. So a node remembers up to where there was nothing left, and begins a
little before that. What appears before it is told with the commit that puts it there, by other nodes in their notices.
Now and then, and whenever it lets time pass, a node looks from the front all the same: a notice may have been lost.
The longer that takes, the longer until it does so again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from couriermq.storage.postgres.pace import rest_seconds

MARGIN_MS = 100
"""How much earlier to begin; all that is in between may have to be stepped over in every look."""
FULL_SECONDS = 5.0
SPOILT_SECONDS = 0.1
FRESH_MS = 100
"""So often a busy node looks for what time has done that only others know of; what it knows of itself is never late."""


class Look(NamedTuple):
    """From when on to look for ready messages and for bundles; 0 is the very front."""

    ready: int
    bundle: int
    began: float

    @property
    def is_full(self) -> bool:
        return self.ready == self.bundle == 0


class Marks:
    """What one node knows of each queue."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._clock = clock
        self._full_at: dict[int, float] = {}
        self._rest_until: dict[int, float] = {}
        """When to look from the front again, at the latest and at the earliest."""
        self._bundles: dict[int, int] = {}
        self._ready: dict[int, int] = {}
        self._due: dict[int, int] = {}
        self._news: dict[int, int] = {}
        """The earliest that was told of since the first began to look of those who do: they may not have seen it."""
        self._looks: dict[int, int] = {}
        self._spoilt: dict[int, float] = {}
        """Queues that had messages which stand for themselves, and until when to believe that they still have."""

    def claim(self, key: int) -> Look:
        """Where to begin; `claimed` says what was found."""
        now = self._clock()
        if not self._looks.get(key):
            self._news.pop(key, None)
        self._looks[key] = self._looks.get(key, 0) + 1
        if now >= max(self._full_at.get(key, now), self._rest_until.get(key, now)):
            self._full_at[key] = now + FULL_SECONDS
            return Look(0, 0, now)
        return Look(self._ready.get(key, 0) - MARGIN_MS, self._bundles.get(key, 0) - MARGIN_MS, now)

    def claimed(self, key: int, look: Look, *, ready: int | None, bundle: int | None) -> None:
        """The oldest that was there; none where there was nothing, which says as much as was known."""
        if look.is_full:
            ended = self._clock()
            self._rest_until[key] = ended + rest_seconds(ended - look.began)
        self._looks[key] = max(0, self._looks.get(key, 0) - 1)
        news = self._news.get(key)
        if ready is not None:
            self._ready[key] = ready if news is None else min(ready, news)
        if bundle is not None:
            self._bundles[key] = bundle if news is None else min(bundle, news)

    def told(self, key: int, at: int) -> None:
        """Something can be had that came, or became ready, then."""
        for kept in (self._ready, self._bundles):
            if at < kept.get(key, 0):
                kept[key] = at
        self._news[key] = min(at, self._news.get(key, at))

    def due(self, key: int) -> int:
        """From when on to look for what has come to its end."""
        return self._due.get(key, 0) - MARGIN_MS

    def is_fresh(self, key: int, now: int) -> bool:
        """Whether time was let pass just now."""
        return now < self._due.get(key, 0) + FRESH_MS

    def passed(self, key: int, now: int) -> None:
        """All has been done that time did to the queue by then."""
        self._due[key] = max(now, self._due.get(key, 0))

    def spoil(self, key: int) -> None:
        """There are messages that stand for themselves, and whoever wants some has to look at these, too."""
        self._spoilt[key] = self._clock() + SPOILT_SECONDS

    def is_spoilt(self, key: int) -> bool:
        return key in self._spoilt and self._clock() < self._spoilt[key]

    def doubt(self, key: int) -> None:
        """Have a look begin at the very front as soon as may be."""
        self._full_at.pop(key, None)

    def forget(self, key: int) -> None:
        for kept in self._all():
            kept.pop(key, None)

    def forget_all(self) -> None:
        for kept in self._all():
            kept.clear()

    def _all(self) -> tuple[dict[int, Any], ...]:
        where = self._full_at, self._rest_until, self._bundles, self._ready, self._due
        return *where, self._news, self._looks, self._spoilt
