"""How much happens in each queue: by the second for a quarter of an hour, by the minute for a day, in memory.

The engine tells what it has committed, in numbers; nothing is read from the journal. A queue without traffic takes no
room, and of too many queues the ones that were quiet for longest are forgotten.
"""

from array import array
from collections import OrderedDict, deque
from collections.abc import Collection, Iterator, Sequence

from couriermq.core.events import EventKind
from couriermq.core.flows import Flows

SECONDS = 900
MINUTES = 1_440
QUEUE_COUNT = 2_000
PRINCIPAL_COUNT = 200
"""Principals that are told apart in one queue."""
WINDOW_SECONDS = 60
"""Rates of principals are means of this time."""
RATE_SECONDS = 10
"""Rates of queues are means of this time."""
SECONDS_OF_MINUTE = 60

SENT, RECEIVED, ACKED, RELEASED, EXPIRED, DEAD, ARRIVED, LEFT = (
    "sent", "received", "acked", "released", "expired", "dead", "arrived", "left",
)  # fmt: skip
SHOWN = (SENT, RECEIVED, ACKED, RELEASED, EXPIRED, DEAD)
"""The measures that have a rate."""
ENTERED = (SENT, ARRIVED)
GONE = (ACKED, DEAD, LEFT)
MEASURES: dict[str, str] = {
    EventKind.SENT: SENT,
    EventKind.PUBLISHED: SENT,
    EventKind.RECEIVED: RECEIVED,
    EventKind.ACKED: ACKED,
    EventKind.RELEASED: RELEASED,
    EventKind.LEASE_EXPIRED: EXPIRED,
    EventKind.DEAD_LETTERED: DEAD,
    EventKind.DISCARDED: LEFT,
    EventKind.PURGED: LEFT,
    EventKind.CANCELLED: LEFT,
    EventKind.MOVED: LEFT,
    EventKind.REDRIVEN: LEFT,
}


class Ring:
    """Counts of the last `length` steps; what is older makes room."""

    __slots__ = ("counts", "length", "newest")

    def __init__(self, length: int) -> None:
        self.length = length
        self.counts = array("I", bytes(4 * length))
        self.newest = -1

    def add(self, step: int, count: int) -> None:
        if step > self.newest:
            self._forget(step)
        elif step <= self.newest - self.length:
            return
        self.counts[step % self.length] += count

    def _forget(self, step: int) -> None:
        """Empty the places of the steps from the newest one to this."""
        if step - self.newest >= self.length:
            self.counts = array("I", bytes(4 * self.length))
        else:
            for passed in range(self.newest + 1, step + 1):
                self.counts[passed % self.length] = 0
        self.newest = step

    def of(self, start: int, stop: int) -> list[int]:
        """The counts of the steps from `start` up to `stop`."""
        oldest = self.newest - self.length
        return [self.counts[step % self.length] if oldest < step <= self.newest else 0 for step in range(start, stop)]


class Course:
    """One measure of one queue."""

    __slots__ = ("minutes", "seconds")

    def __init__(self) -> None:
        self.seconds = Ring(SECONDS)
        self.minutes = Ring(MINUTES)

    def add(self, second: int, count: int) -> None:
        self.seconds.add(second, count)
        self.minutes.add(second // SECONDS_OF_MINUTE, count)


class Activity:
    """What one principal did lately in one queue."""

    __slots__ = ("last_received_at", "recent")

    def __init__(self) -> None:
        self.recent: dict[str, deque[tuple[int, int]]] = {}
        self.last_received_at: int | None = None

    def add(self, measure: str, second: int, count: int) -> None:
        steps = self.recent.setdefault(measure, deque(maxlen=WINDOW_SECONDS))
        if steps and steps[-1][0] == second:
            steps[-1] = (second, steps[-1][1] + count)
        else:
            steps.append((second, count))
        if measure == RECEIVED:
            self.last_received_at = second * 1_000

    def per_second(self, measure: str, second: int) -> float:
        steps = self.recent.get(measure, ())
        return sum(count for at, count in steps if at > second - WINDOW_SECONDS) / WINDOW_SECONDS


class QueueRates:
    """All measures of one queue, and who does what in it."""

    __slots__ = ("courses", "newest", "principals")

    def __init__(self) -> None:
        self.courses: dict[str, Course] = {}
        self.principals: OrderedDict[str, Activity] = OrderedDict()
        self.newest = 0

    def add(self, measure: str, second: int, count: int) -> None:
        course = self.courses.get(measure)
        if course is None:
            course = self.courses[measure] = Course()
        course.add(second, count)
        self.newest = max(self.newest, second)

    def add_principal(self, principal: str, measure: str, second: int, count: int) -> None:
        activity = self.principals.get(principal)
        if activity is None:
            activity = self.principals[principal] = Activity()
            if len(self.principals) > PRINCIPAL_COUNT:
                self.principals.popitem(last=False)
        else:
            self.principals.move_to_end(principal)
        activity.add(measure, second, count)

    def seconds(self, measure: str, start: int, stop: int) -> list[int]:
        course = self.courses.get(measure)
        return course.seconds.of(start, stop) if course else [0] * (stop - start)

    def minutes(self, measure: str, start: int, stop: int) -> list[int]:
        course = self.courses.get(measure)
        return course.minutes.of(start, stop) if course else [0] * (stop - start)

    def per_second(self, measure: str, second: int) -> float:
        """The mean of the last whole seconds before `second`."""
        if self.newest < second - RATE_SECONDS:
            return 0.0
        return sum(self.seconds(measure, second - RATE_SECONDS, second)) / RATE_SECONDS


NOTHING = QueueRates()


class Rates:
    """The rates of all queues and exchanges, by their ids."""

    def __init__(self) -> None:
        self._queues: OrderedDict[str, QueueRates] = OrderedDict()

    def happened(self, flows: Flows, *, tallied: Collection[str] = ()) -> None:
        """Take over what was committed; called for every commit. Measures that are `tallied` come by `counted`."""
        for (second, kind, queue_id, principal, target_id), count in flows.items():
            measure = MEASURES.get(kind)
            if measure is None or queue_id is None:
                continue
            queue = self._touched(queue_id)
            if measure not in tallied:
                queue.add(measure, second, count)
            if principal is not None:
                queue.add_principal(principal, measure, second, count)
            if target_id is not None and ARRIVED not in tallied:
                self._touched(target_id).add(ARRIVED, second, count)

    def counted(self, queue_id: str, measure: str, second: int, count: int) -> None:
        """Take over one figure that was found by counting."""
        self._touched(queue_id).add(measure, second, count)

    def _touched(self, queue_id: str) -> QueueRates:
        queue = self._queues.get(queue_id)
        if queue is None:
            queue = self._queues[queue_id] = QueueRates()
            if len(self._queues) > QUEUE_COUNT:
                self._queues.popitem(last=False)
        else:
            self._queues.move_to_end(queue_id)
        return queue

    def of(self, queue_id: str) -> QueueRates:
        return self._queues.get(queue_id, NOTHING)


def backlog(rates: QueueRates, now_count: int, start: int, stop: int, *, by_minutes: bool) -> list[int]:
    """How many messages there were at the end of each step, reckoned backwards from how many there are now."""
    read = rates.minutes if by_minutes else rates.seconds
    changes = _changes([read(name, start, stop) for name in ENTERED], [read(name, start, stop) for name in GONE])
    levels, level = [], now_count
    for change in reversed(list(changes)):
        levels.append(max(0, level))
        level -= change
    return levels[::-1]


def _changes(entered: Sequence[list[int]], gone: Sequence[list[int]]) -> Iterator[int]:
    for arriving, leaving in zip(zip(*entered, strict=True), zip(*gone, strict=True), strict=True):
        yield sum(arriving) - sum(leaving)
