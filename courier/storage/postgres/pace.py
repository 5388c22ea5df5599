"""Regular looks that stay cheap: the longer one takes, the longer until the next."""

import contextlib
from collections.abc import Callable, Iterator

REST = 20


class Pace:
    """For what is done every tick, unless it has taken more than a twentieth of the time lately."""

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
            self._next_at = ended + REST * (ended - started)
