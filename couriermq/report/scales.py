"""From values to places on paper: round ticks, plain and logarithmic axes, and how numbers and instants are written."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from couriermq.core.model import DAY, HOUR, MINUTE, SECOND

STEPS_MS = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, DAY, 7 * DAY)
MOST_POINTS = 144
LABEL_STEPS_MS = (
    MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
    HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY,
)  # fmt: skip
MOST_LABELS = 8
MARKS_MS = (1, 10, 100, SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY)


def step_for(start: int, end: int) -> int:
    """The shortest step that cuts a stretch of time into not too many points."""
    return next((step for step in STEPS_MS if (end - start) / step <= MOST_POINTS), STEPS_MS[-1])


class Scale(NamedTuple):
    """A value's share of the way from the bottom of an axis to its top, and the values that are marked on it."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        if self.logarithmic:
            low, high, value = (math.log10(max(one, self.low)) for one in (self.low, self.high, value))
            return (value - low) / (high - low)
        return (value - self.low) / (self.high - self.low)


def linear(values: Sequence[float]) -> Scale:
    """From zero to a round number above the largest value."""
    most = max(values, default=0) or 1
    step = 10 ** math.floor(math.log10(most / 4))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if most / (step * factor) <= 5)
    if step < 1 and most >= 4:
        step = 1
    count = math.ceil(most / step)
    return Scale(0, step * count, tuple(step * index for index in range(count + 1)))


def durations(values: Sequence[float]) -> Scale:
    """A logarithmic axis around durations, marked where people would mark it."""
    low = max((mark for mark in MARKS_MS if mark <= min(values)), default=MARKS_MS[0])
    high = min((mark for mark in MARKS_MS if mark >= max(values) and mark > low), default=max(*values, 2 * low))
    return Scale(low, high, tuple(mark for mark in MARKS_MS if low <= mark <= high), logarithmic=True)


def time_ticks(start: int, end: int) -> list[int]:
    """Round instants between two others."""
    step = next((step for step in LABEL_STEPS_MS if (end - start) / step <= MOST_LABELS), LABEL_STEPS_MS[-1])
    first = -(-start // step) * step
    return list(range(first, end + 1, step))


def show_tick(at: int, span_ms: int) -> str:
    moment = datetime.fromtimestamp(at / SECOND, tz=UTC)
    if span_ms > 3 * DAY:
        return f"{moment.day} {moment:%b}"
    return f"{moment.day} {moment:%b}" if moment.hour == moment.minute == 0 else f"{moment:%H:%M}"


def show_moment(at: int) -> str:
    return f"{datetime.fromtimestamp(at / SECOND, tz=UTC):%Y-%m-%d %H:%M} UTC"


def show_number(value: float) -> str:
    """1,234 and 12.3k: as many digits as a glance takes in."""
    for least, factor, unit in ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return _short(value / factor) + unit
    return _short(value)


def _short(value: float) -> str:
    if value == round(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")


def show_bytes(value: float) -> str:
    for factor, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= factor:
            return f"{_short(value / factor)} {unit}"
    return f"{value:,.0f} B"


def show_span(ms: float) -> str:
    """A duration in the unit that suits it."""
    for factor, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if ms >= factor:
            return f"{_short(round(ms / factor, 1))} {unit}"
    return f"{_short(round(ms, 1))} ms"
