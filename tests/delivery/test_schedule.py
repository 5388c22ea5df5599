"""What follows from an answer, without a socket or a clock."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.core.model import DAY, HOUR, MINUTE, SECOND, ListenerSettings
from couriermq.delivery.model import Answer, Delivered, Gone, Retry, Verdict
from couriermq.delivery.schedule import retry_after_ms, verdict

NOW = 1_700_000_000_000
DEFAULT = ListenerSettings()
WAITS = (5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR)


def judged(answer: Answer, *, attempt: int = 1, dice: float = 0.5, settings: ListenerSettings = DEFAULT) -> Verdict:
    return verdict(answer, settings, attempt=attempt, now=NOW, dice=dice)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_delivered(status: int) -> None:
    assert judged(Answer(status=status)) == Delivered()


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 401, 404, 500, 501, 503])
def test_every_other_status_is_a_failed_attempt(status: int) -> None:
    assert judged(Answer(status=status)) == Retry(5 * SECOND)


def test_no_answer_is_a_failed_attempt() -> None:
    assert judged(Answer(error="no answer within 15000 ms")) == Retry(5 * SECOND)


@pytest.mark.parametrize(("attempt", "wait"), list(enumerate(WAITS, 1)))
def test_the_schedule_by_default(attempt: int, wait: int) -> None:
    assert judged(Answer(status=500), attempt=attempt) == Retry(wait)


def test_after_the_last_attempt_there_is_nothing_to_wait_for() -> None:
    assert judged(Answer(status=500), attempt=8) == Retry(0)


@given(st.integers(1, 7), st.floats(0, 1, exclude_max=True))
def test_a_wait_is_up_to_a_fifth_shorter_or_longer(attempt: int, dice: float) -> None:
    decided = judged(Answer(status=500), attempt=attempt, dice=dice)
    assert isinstance(decided, Retry)
    assert 0.8 * WAITS[attempt - 1] - 1 <= decided.delay_ms <= 1.2 * WAITS[attempt - 1] + 1


def test_the_ends_of_the_dice_are_the_ends_of_the_jitter() -> None:
    assert judged(Answer(status=500), dice=0.0) == Retry(4 * SECOND)
    assert judged(Answer(status=500), dice=1.0) == Retry(6 * SECOND)


def test_a_schedule_of_ones_own() -> None:
    settings = ListenerSettings(schedule_ms=(1, 10), jitter=0.0)
    decided = [judged(Answer(status=500), attempt=n, settings=settings) for n in (1, 2, 3)]
    assert decided == [Retry(1), Retry(10), Retry(0)]


def test_410_is_the_end() -> None:
    decided = judged(Answer(status=410))
    assert isinstance(decided, Gone)
    assert "410" in decided.reason


def test_retry_after_makes_the_wait_longer() -> None:
    assert judged(Answer(status=503, retry_after="60")) == Retry(60 * SECOND)


def test_retry_after_never_makes_it_shorter_than_the_schedule() -> None:
    assert judged(Answer(status=503, retry_after="1"), attempt=2) == Retry(5 * MINUTE)


def test_a_day_is_the_longest_that_a_receiver_can_ask_for() -> None:
    assert judged(Answer(status=503, retry_after="999999999")) == Retry(DAY)


@pytest.mark.parametrize("status", [429, 502, 504])
def test_overload_holds_everything_else_too(status: int) -> None:
    assert judged(Answer(status=status)) == Retry(60 * SECOND, hold_ms=5 * SECOND)


def test_overload_holds_for_as_long_as_the_receiver_says() -> None:
    assert judged(Answer(status=429, retry_after="30")) == Retry(30 * SECOND, hold_ms=30 * SECOND)


def test_a_held_listener_is_not_held_for_more_than_an_hour() -> None:
    assert judged(Answer(status=429, retry_after="86400")) == Retry(DAY, hold_ms=HOUR)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("0", 0),
        (" 120 ", 120 * SECOND),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("", None),
        ("٣", None),
        ("9" * 400, int("9" * 12) * SECOND),
        ("Tue, 99 Nov 2026 99:99:99 GMT", None),
    ],
)
def test_what_a_retry_after_header_says(value: str | None, expected: int | None) -> None:
    assert retry_after_ms(value, now=NOW) == expected


@pytest.mark.parametrize(("ahead_s", "expected"), [(90, 90 * SECOND), (-90, 0)])
def test_a_retry_after_that_is_a_date(ahead_s: int, expected: int) -> None:
    at = datetime.fromtimestamp(NOW / 1_000 + ahead_s, UTC)
    assert retry_after_ms(at.strftime("%a, %d %b %Y %H:%M:%S GMT"), now=NOW) == expected
