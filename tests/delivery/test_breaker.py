"""The breaker, moved through time by hand."""

from couriermq.core.model import MINUTE, SECOND
from couriermq.delivery.breaker import CLOSED, FIRST_OPEN_MS, LONGEST_OPEN_MS, TRIP_COUNT, Breaker
from couriermq.delivery.model import BreakerState

NOW = 1_700_000_000_000


def failed(breaker: Breaker, count: int, *, now: int = NOW) -> Breaker:
    for _ in range(count):
        breaker = breaker.after_failure(now=now)
    return breaker


def test_a_closed_breaker_lets_everything_through() -> None:
    assert CLOSED.room(8, now=NOW) == 8


def test_a_few_failures_leave_it_closed() -> None:
    assert failed(CLOSED, TRIP_COUNT - 1).state(now=NOW) is BreakerState.CLOSED


def test_many_failures_in_a_row_open_it() -> None:
    breaker = failed(CLOSED, TRIP_COUNT)
    assert breaker.state(now=NOW) is BreakerState.OPEN
    assert breaker.room(8, now=NOW) == 0


def test_a_success_starts_the_count_anew() -> None:
    breaker = failed(failed(CLOSED, TRIP_COUNT - 1).after_success(), TRIP_COUNT - 1)
    assert breaker.state(now=NOW) is BreakerState.CLOSED


def test_after_its_time_it_lets_one_probe_through() -> None:
    breaker = failed(CLOSED, TRIP_COUNT)
    assert breaker.room(8, now=NOW + FIRST_OPEN_MS - 1) == 0
    assert breaker.state(now=NOW + FIRST_OPEN_MS) is BreakerState.HALF_OPEN
    assert breaker.room(8, now=NOW + FIRST_OPEN_MS) == 1


def test_a_probe_that_succeeds_closes_it() -> None:
    assert failed(CLOSED, TRIP_COUNT).after_success().room(8, now=NOW + 30 * SECOND) == 8


def test_a_probe_that_fails_opens_it_for_twice_as_long() -> None:
    later = NOW + FIRST_OPEN_MS
    breaker = failed(CLOSED, TRIP_COUNT).after_failure(now=later)
    assert breaker.state(now=later + FIRST_OPEN_MS) is BreakerState.OPEN
    assert breaker.state(now=later + 2 * FIRST_OPEN_MS) is BreakerState.HALF_OPEN


def test_it_is_never_open_for_longer_than_a_quarter_of_an_hour() -> None:
    breaker, now = failed(CLOSED, TRIP_COUNT), NOW
    for _ in range(20):
        now = breaker.half_opens_at
        breaker = breaker.after_failure(now=now)
    assert breaker.half_opens_at - now == LONGEST_OPEN_MS == 15 * MINUTE


def test_a_delivery_that_was_under_way_does_not_open_it_again() -> None:
    breaker = failed(CLOSED, TRIP_COUNT)
    assert failed(breaker, 5, now=NOW + SECOND).half_opens_at == breaker.half_opens_at


def test_a_receiver_that_is_known_to_be_down_trips_it() -> None:
    assert CLOSED.tripped(now=NOW).state(now=NOW) is BreakerState.OPEN


def test_a_receiver_that_is_known_to_be_back_is_probed_at_once() -> None:
    breaker = failed(CLOSED, TRIP_COUNT).probing(now=NOW + SECOND)
    assert breaker.state(now=NOW + SECOND) is BreakerState.HALF_OPEN
    assert CLOSED.probing(now=NOW) is CLOSED
