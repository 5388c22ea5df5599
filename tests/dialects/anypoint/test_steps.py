"""Windows of time cut into steps: they begin and end with the window, and they add up to it."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from couriermq.core.model import DAY, HOUR, MINUTE, SECOND
from couriermq.dialects.anypoint.figures import KEPT_MS, Series
from couriermq.dialects.anypoint.history import Window
from couriermq.dialects.anypoint.steps import Step, added_up, cells_of, steps_of, unit_of

NOW = 1_700_049_600_000 + 17 * MINUTE + 4 * SECOND + 321
GRAINS = (SECOND, MINUTE, HOUR)

ages = st.integers(0, 3 * HOUR) | st.integers(0, 15 * DAY) | st.integers(0, 100 * DAY)
lengths = st.integers(0, 20 * DAY // SECOND).map(lambda seconds: seconds * SECOND)
"""What happened is known to the second at best."""
periods = st.integers(1, 86_400) | st.sampled_from([60, 300, 3_600, 86_400])


def series_of(instants: list[int]) -> Series:
    series = Series(1, GRAINS)
    for at in instants:
        series.add(at, 0, 1, NOW)
    return series


@given(st.lists(ages, max_size=50), ages, lengths, periods)
@example([0, 10_000], DAY, DAY, 86_400)
def test_the_steps_of_a_window_add_up_to_the_window(happened: list[int], age: int, length: int, period: int) -> None:
    series = series_of([NOW - one for one in happened])
    start = (NOW - age) // SECOND * SECOND
    window = Window(start=start, end=min(start + length, NOW // SECOND * SECOND), step_ms=period * SECOND)
    oldest = NOW - KEPT_MS[unit_of(series, window)]
    steps = steps_of(window, now=NOW, known_from=oldest)
    sums, since = added_up(cells_of(series, window, now=NOW), steps, 1)
    if start < oldest:
        return
    assert (steps[0].at, steps[-1].end) == (start, window.end)
    assert all(one.end == two.at for one, two in pairwise(steps))
    assert all(step.end - step.at == period * SECOND for step in steps[:-1])
    if start >= NOW - KEPT_MS[SECOND] + MINUTE:  # later on, instants are known to the minute or to the hour
        assert sum(row[0] for row in sums) == sum(window.start <= NOW - one < window.end for one in happened)
        assert since[0] == sum(NOW - one >= window.end for one in happened)


@given(st.lists(st.integers(0, 15 * DAY - HOUR), max_size=50), st.integers(1, 14 * 24 * 60), st.integers(1, 24 * 60))
def test_steps_of_whole_minutes_are_exact_for_fifteen_days(happened: list[int], age: int, minutes: int) -> None:
    series = series_of([NOW - one for one in happened])
    start = NOW // MINUTE * MINUTE - age * MINUTE
    window = Window(start=start, end=NOW // MINUTE * MINUTE, step_ms=minutes * MINUTE)
    steps = steps_of(window, now=NOW, known_from=0)
    sums, _ = added_up(cells_of(series, window, now=NOW), steps, 1)
    assert [row[0] for row in sums] == [sum(step.at <= NOW - one < step.end for one in happened) for step in steps]


@given(st.lists(ages, max_size=50), ages, ages)
def test_windows_that_follow_one_another_count_nothing_twice(happened: list[int], one: int, two: int) -> None:
    series = series_of([NOW - age for age in happened])
    old, middle = sorted([(NOW - one) // SECOND * SECOND, (NOW - two) // SECOND * SECOND])

    def counted(start: int, end: int) -> int:
        cells = cells_of(series, Window(start=old + 1, end=end, step_ms=DAY), now=NOW)
        return added_up(cells, [Step(start, end)], 1)[0][0][0]

    assert counted(old, middle) + counted(middle, NOW + 1) == counted(old, NOW + 1)


@given(ages, st.integers(-DAY, 20 * DAY), periods, ages)
def test_there_is_always_a_step(age: int, length: int, period: int, known: int) -> None:
    start = NOW - age + DAY
    window = Window(start=start, end=max(start, start + length), step_ms=period * SECOND)
    steps = steps_of(window, now=NOW, known_from=NOW - min(known, 3 * HOUR))
    assert 1 <= len(steps) <= 3 * HOUR // SECOND + 1
    assert all(step.at <= NOW for step in steps)
    assert (steps[0].at - start) % (period * SECOND) == 0


def test_a_step_of_which_only_a_part_is_known_is_better_than_none() -> None:
    window = Window(start=NOW - DAY, end=NOW, step_ms=DAY)
    assert steps_of(window, now=NOW, known_from=NOW - HOUR) == [Step(NOW - DAY, NOW)]
    window = Window(start=NOW - 3 * DAY, end=NOW, step_ms=DAY)
    assert steps_of(window, now=NOW, known_from=NOW - 2 * DAY - 1) == [
        Step(NOW - 2 * DAY, NOW - DAY),
        Step(NOW - DAY, NOW),
    ]
