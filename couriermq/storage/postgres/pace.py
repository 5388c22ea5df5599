"""Regular looks that stay cheap: the longer one takes, the longer until the next."""

import contextlib
from collections.abc import Callable, Iterator

REST = 50
"""How many times as long as a look took there is none. A look is long where dead rows cannot be swept."""
MOST_REST_SECONDS = 30.0
"""A look may also have been long because the database was away for a moment."""


def rest_seconds(took: float) -> float:
    """How long not to look again after a look that took so many seconds."""
    return min(REST * took, MOST_REST_SECONDS)


class Pace:
    """For what is done every tick, unless it has taken more than a fiftieth of the time lately."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next_at = 0.0

    @property
    def is_due(self) -> bool:
        return self._clock() >= self._next_at

    @contextlib.contextmanager
    def look(self) -> Iterator[None]:
        started = self._clock()
        try:
            yield
        finally:
            ended = self._clock()
            self._next_at = ended + rest_seconds(ended - started)
