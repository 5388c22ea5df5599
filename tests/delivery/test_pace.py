"""How often a listener may be called."""

import pytest

from couriermq.delivery.pace import Pace

NOW = 1_700_000_000_000


def calls(rate: float, *, seconds: int) -> int:
    """How many calls begin when one is made whenever it may be."""
    pace, made = Pace(), 0
    for now in range(NOW, NOW + seconds * 1_000):
        count = pace.allowance(rate, now=now)
        pace.spend(count, rate, now=now)
        made += count
    return made


@pytest.mark.parametrize("rate", [0.5, 1, 3, 10, 50, 333, 1_000])
def test_over_time_the_rate_is_kept(rate: float) -> None:
    assert rate * 20 - 1 <= calls(rate, seconds=20) <= rate * 20 + max(1, rate / 10) + 1


def test_a_listener_that_was_idle_gets_only_a_small_burst() -> None:
    pace = Pace()
    pace.spend(1, 100, now=NOW)
    assert pace.allowance(100, now=NOW + 3_600_000) == 10


def test_it_says_when_the_next_call_may_begin() -> None:
    pace = Pace()
    pace.spend(pace.allowance(2, now=NOW), 2, now=NOW)
    at = pace.ready_at(2)
    assert pace.allowance(2, now=at - 2) == 0
    assert pace.allowance(2, now=at) >= 1
