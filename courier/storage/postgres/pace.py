"""Regular looks that stay cheap: the longer one takes, the longer until the next."""

import contextlib
from collections.abc import Callable, Iterator

REST = 50
"""How many times as long as a look took there is none. A look is long where dead rows cannot be swept."""


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
            self._next_at = ended + REST * (ended - started)
