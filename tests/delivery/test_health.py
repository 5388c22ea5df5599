"""How health follows from what happens, and when a listener is given up."""

from couriermq.core.model import DAY, HOUR
from couriermq.delivery.health import DISABLE_COUNT, DOWN_COUNT, after_check, after_delivery, hopeless
from couriermq.delivery.model import Answer, Health, Liveness

NOW = 1_700_000_000_000
GOOD, BAD = Answer(status=200), Answer(status=500)
DEAD = Answer(error="no connection to 127.0.0.1: Connection refused")


def failing(count: int, *, start: int = NOW, every_ms: int = HOUR, health: Health | None = None) -> Health:
    health = health or Health()
    for number in range(count):
        health = after_delivery(health, BAD, delivered=False, now=start + number * every_ms)
    return health


def test_a_success_is_counted_and_timed() -> None:
    health = after_delivery(Health(), GOOD, delivered=True, now=NOW)
    assert (health.success_count, health.last_success_at, health.failing_since) == (1, NOW, None)


def test_a_failure_is_counted_with_its_reason() -> None:
    health = after_delivery(Health(), DEAD, delivered=False, now=NOW)
    assert (health.failure_count, health.failing_since, health.last_failure_error) == (1, NOW, DEAD.error)


def test_the_first_of_a_run_of_failures_starts_it() -> None:
    health = failing(3)
    assert (health.failing_since, health.failure_run, health.last_failure_at) == (NOW, 3, NOW + 2 * HOUR)


def test_a_success_ends_a_run_of_failures() -> None:
    health = after_delivery(failing(3), GOOD, delivered=True, now=NOW)
    assert (health.failing_since, health.failure_run, health.failure_count) == (None, 0, 3)


def test_days_of_nothing_but_failures_are_hopeless() -> None:
    health = failing(200)
    assert hopeless(health, disable_ms=5 * DAY, now=NOW + 5 * DAY - 1) is None
    reason = hopeless(health, disable_ms=5 * DAY, now=NOW + 5 * DAY)
    assert reason == "nothing but failures for 5 days (200 attempts), the last: status 500"


def test_one_success_in_between_is_hope() -> None:
    health = after_delivery(failing(100), GOOD, delivered=True, now=NOW + 4 * DAY)
    health = failing(100, start=NOW + 4 * DAY, health=health)
    assert hopeless(health, disable_ms=5 * DAY, now=NOW + 8 * DAY) is None


def test_a_handful_of_failures_is_not_enough_however_far_apart() -> None:
    health = failing(DISABLE_COUNT - 1, every_ms=DAY)
    assert hopeless(health, disable_ms=5 * DAY, now=NOW + 30 * DAY) is None


def test_a_receiver_that_answers_lives_whatever_it_says() -> None:
    for status in (200, 204, 301, 404, 405):
        health = after_check(Health(), Answer(status=status), now=NOW)
        assert (health.liveness, health.live_count, health.last_live_at) == (Liveness.STABLE, 1, NOW)


def test_a_check_that_fails_makes_it_unstable_and_several_make_it_down() -> None:
    health, states = Health(), []
    for _ in range(DOWN_COUNT):
        health = after_check(health, DEAD, now=NOW)
        states.append(health.liveness)
    assert states == [Liveness.UNSTABLE, Liveness.UNSTABLE, Liveness.DOWN]
    assert (health.lifeless_count, health.last_lifeless_error) == (3, DEAD.error)


def test_one_good_check_makes_it_stable_again() -> None:
    health = after_check(Health(liveness=Liveness.DOWN, lifeless_run=7), GOOD, now=NOW)
    assert (health.liveness, health.lifeless_run) == (Liveness.STABLE, 0)
