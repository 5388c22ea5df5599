"""How many invocations of a consumer ran at a time, minute by minute, as this node has seen it."""

import msgspec

from couriermq.core.model import MINUTE

KEPT_MINUTES = 24 * 60


class _Course(msgspec.Struct):
    active: int = 0
    since: int = 0
    busy_ms: dict[int, int] = {}
    """By the start of the minute, the running times of all invocations in it."""


class ConcurrencyMeter:
    """`change` is called when an invocation begins or ends."""

    def __init__(self) -> None:
        self._courses: dict[str, _Course] = {}

    def change(self, queue_id: str, by: int, *, now: int) -> None:
        course = self._courses.get(queue_id)
        if course is None:
            if by < 0:
                return  # the consumer was removed meanwhile
            course = self._courses[queue_id] = _Course(since=now)
        _spread(course, now)
        course.active = max(course.active + by, 0)  # an invocation of a consumer that was removed may end later

    def forget(self, queue_id: str) -> None:
        self._courses.pop(queue_id, None)

    def averages(self, queue_id: str, *, now: int) -> dict[int, float]:
        """The mean number of invocations in each minute in which there was one, by the start of the minute."""
        course = self._courses.get(queue_id)
        if course is None:
            return {}
        _spread(course, now)
        return {at: busy_ms / min(MINUTE, max(now - at, 1)) for at, busy_ms in course.busy_ms.items()}


def _spread(course: _Course, now: int) -> None:
    """Count the time since the last change into its minutes."""
    at = max(course.since, now - KEPT_MINUTES * MINUTE)
    while course.active and at < now:
        minute = at - at % MINUTE
        end = min(now, minute + MINUTE)
        course.busy_ms[minute] = course.busy_ms.get(minute, 0) + course.active * (end - at)
        at = end
    course.since = max(course.since, now)
    while len(course.busy_ms) > KEPT_MINUTES:
        del course.busy_ms[min(course.busy_ms)]
