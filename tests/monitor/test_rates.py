"""Counts by the second and by the minute, in rings."""

from couriermq.core.events import EventKind
from couriermq.core.flows import Flow
from couriermq.monitor import rates
from couriermq.monitor.rates import QUEUE_COUNT, Rates, Ring, backlog

SECOND = 1_700_000_000


def flow(kind: str, *, second: int = SECOND, queue: str = "q", by: str | None = "p", to: str | None = None) -> Flow:
    return second, kind, queue, by, to


def test_a_ring_remembers_its_length_and_no_more() -> None:
    ring = Ring(3)
    for step in range(1, 6):
        ring.add(step, step * 10)
    assert ring.of(1, 7) == [0, 0, 30, 40, 50, 0]


def test_a_ring_forgets_steps_in_which_nothing_happened() -> None:
    ring = Ring(3)
    ring.add(1, 5)
    ring.add(3, 7)
    assert ring.of(1, 4) == [5, 0, 7]
    ring.add(100, 1)
    assert ring.of(98, 101) == [0, 0, 1]


def test_a_ring_takes_what_comes_late_unless_it_has_forgotten_the_step() -> None:
    ring = Ring(3)
    ring.add(10, 1)
    ring.add(9, 2)
    ring.add(7, 4)
    assert ring.of(7, 11) == [0, 0, 2, 1]


def test_each_kind_of_event_is_counted_where_it_happened() -> None:
    counted = Rates()
    counted.happened({flow(EventKind.SENT): 5, flow(EventKind.RECEIVED): 4, flow(EventKind.LEASE_EXPIRED): 1})
    counted.happened({flow(EventKind.SENT, second=SECOND + 1): 2})
    queue = counted.of("q")
    assert queue.seconds(rates.SENT, SECOND, SECOND + 2) == [5, 2]
    assert queue.seconds(rates.RECEIVED, SECOND, SECOND + 2) == [4, 0]
    assert queue.seconds(rates.EXPIRED, SECOND, SECOND + 2) == [1, 0]
    minute = SECOND // 60
    assert sum(queue.minutes(rates.SENT, minute, minute + 2)) == 7


def test_a_message_that_moves_arrives_where_it_goes() -> None:
    counted = Rates()
    counted.happened({flow(EventKind.DEAD_LETTERED, to="failed"): 3})
    assert counted.of("q").seconds(rates.DEAD, SECOND, SECOND + 1) == [3]
    assert counted.of("failed").seconds(rates.ARRIVED, SECOND, SECOND + 1) == [3]


def test_the_rate_is_the_mean_of_ten_seconds() -> None:
    counted = Rates()
    counted.happened({flow(EventKind.SENT): 50})
    assert counted.of("q").per_second(rates.SENT, SECOND + 1) == 5.0
    assert counted.of("q").per_second(rates.SENT, SECOND + 11) == 0.0
    assert counted.of("unknown").per_second(rates.SENT, SECOND) == 0.0


def test_principals_have_rates_of_their_own() -> None:
    counted = Rates()
    counted.happened({flow(EventKind.RECEIVED, by="a"): 60, flow(EventKind.RECEIVED, by="b", second=SECOND + 1): 6})
    people = counted.of("q").principals
    assert people["a"].per_second(rates.RECEIVED, SECOND) == 1.0
    assert people["b"].per_second(rates.RECEIVED, SECOND + 1) == 0.1
    assert people["a"].per_second(rates.RECEIVED, SECOND + 60) == 0.0
    assert people["b"].last_received_at == (SECOND + 1) * 1_000


def test_of_too_many_queues_the_quietest_are_forgotten() -> None:
    counted = Rates()
    for number in range(QUEUE_COUNT):
        counted.happened({flow(EventKind.SENT, queue=str(number)): 1})
    counted.happened({flow(EventKind.SENT, queue="0"): 1})
    counted.happened({flow(EventKind.SENT, queue="new"): 1})
    assert counted.of("0").newest
    assert not counted.of("1").newest


def test_the_backlog_is_reckoned_backwards() -> None:
    counted = Rates()
    counted.happened({flow(EventKind.SENT): 5, flow(EventKind.ACKED, second=SECOND + 1): 2})
    counted.happened({flow(EventKind.PURGED, second=SECOND + 2): 1})
    assert backlog(counted.of("q"), 2, SECOND - 1, SECOND + 3, by_minutes=False) == [0, 5, 3, 2]
