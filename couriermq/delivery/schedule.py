"""What follows from an answer: a verdict, by the listener's schedule and what the receiver asks for."""

from email.utils import parsedate_to_datetime

from couriermq.core.model import DAY, HOUR, MINUTE, SECOND, ListenerSettings
from couriermq.delivery.model import Answer, Delivered, Gone, Retry, Verdict

GONE = 410
THROTTLED = frozenset({429, 502, 504})
"""What a receiver, or the proxy before it, says when it gets more than it can take."""

LONGEST_WAIT_MS = DAY
LONGEST_HOLD_MS = HOUR
DEFAULT_HOLD_MS = 5 * SECOND
"""How long a throttled listener is left alone when its receiver does not say."""
LEAST_THROTTLED_WAIT_MS = MINUTE


def verdict(answer: Answer, settings: ListenerSettings, *, attempt: int, now: int, dice: float) -> Verdict:
    """2xx is delivered, 410 is the end, all else is tried again; `dice` from 0 up to 1 spreads the tries."""
    if answer.status is not None and 200 <= answer.status <= 299:
        return Delivered()
    delay_ms = jittered(scheduled_ms(settings, attempt), settings.jitter, dice)
    if answer.status == GONE:
        return Gone(delay_ms, "the receiver answered 410 Gone")
    asked_ms = min(retry_after_ms(answer.retry_after, now=now) or 0, LONGEST_WAIT_MS)
    if answer.status not in THROTTLED:
        return Retry(max(delay_ms, asked_ms))
    hold_ms = min(asked_ms, LONGEST_HOLD_MS) or DEFAULT_HOLD_MS
    return Retry(max(delay_ms, asked_ms or LEAST_THROTTLED_WAIT_MS), hold_ms)


def scheduled_ms(settings: ListenerSettings, attempt: int) -> int:
    """The wait after the attempt of that number, the first being 1; after the last there is none."""
    return settings.schedule_ms[attempt - 1] if attempt <= len(settings.schedule_ms) else 0


def jittered(delay_ms: int, jitter: float, dice: float) -> int:
    """The delay, up to `jitter` shorter or longer."""
    return round(delay_ms * (1 + jitter * (2 * dice - 1)))


def retry_after_ms(value: str | None, *, now: int) -> int | None:
    """How long a Retry-After header asks to wait: seconds, or until an HTTP date; None where it says neither."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return int(text[:12]) * SECOND
    try:
        at = parsedate_to_datetime(text).timestamp() * SECOND
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0, round(at) - now)
