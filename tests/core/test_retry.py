"""Where a message goes when its lease ends without an ack, stated once more in plain words."""

from hypothesis import given
from hypothesis import strategies as st

from couriermq.core.model import QueueSettings
from couriermq.core.retry import EXHAUSTED, Again, Expired, after_failure, discard_at

instants = st.integers(0, 50)
durations = st.integers(0, 20)


@given(
    settings=st.builds(QueueSettings, max_attempts=st.none() | st.integers(1, 4), retry_delay_ms=durations),
    attempts=st.integers(1, 6),
    ended_at=instants,
    too_old_at=instants,
    delay_ms=st.none() | durations,
)
def test_a_failed_attempt_expires_dies_or_comes_again(
    settings: QueueSettings, attempts: int, ended_at: int, too_old_at: int, delay_ms: int | None
) -> None:
    verdict = after_failure(settings, attempts=attempts, ended_at=ended_at, discard_at=too_old_at, delay_ms=delay_ms)
    if too_old_at < ended_at:
        assert verdict == Expired()
    elif settings.max_attempts is not None and attempts >= settings.max_attempts:
        assert verdict == EXHAUSTED
    else:
        assert verdict == Again(due_at=ended_at + (delay_ms if delay_ms is not None else settings.retry_delay_ms))


def test_a_delay_of_zero_wins_over_the_queues_delay() -> None:
    settings = QueueSettings(retry_delay_ms=5_000)
    assert after_failure(settings, attempts=1, ended_at=100, discard_at=999, delay_ms=0) == Again(due_at=100)


def test_at_the_same_instant_the_failed_attempt_goes_before_the_end_of_retention() -> None:
    settings = QueueSettings(max_attempts=1)
    assert after_failure(settings, attempts=1, ended_at=100, discard_at=100) == EXHAUSTED


def test_without_a_limit_a_message_may_fail_for_ever() -> None:
    assert after_failure(QueueSettings(), attempts=1_000_000, ended_at=1, discard_at=2) == Again(due_at=1)


@given(entered_at=instants, queue_ms=st.integers(1_000, 9_000), own_ms=st.none() | st.integers(1, 9_000))
def test_a_messages_own_retention_wins_over_the_queues(entered_at: int, queue_ms: int, own_ms: int | None) -> None:
    settings = QueueSettings(retention_ms=queue_ms)
    expected = entered_at + (queue_ms if own_ms is None else own_ms)
    assert discard_at(settings, entered_at=entered_at, retention_ms=own_ms) == expected
