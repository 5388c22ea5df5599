"""Cutting a window of time into steps, and adding up what happened in each of them.

The first step begins where the window does, and the last ends there: the steps of a window add up to the window. What
happened is known by cells (seconds, minutes or hours), and a cell belongs to the step in which it begins.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

import msgspec

from couriermq.dialects.anypoint import dates
from couriermq.dialects.anypoint.figures import KEPT_MS, Row, Series
from couriermq.dialects.anypoint.history import Window

Cell = tuple[int, Row]
"""When a cell begins, and what happened in it."""


class Step(msgspec.Struct, frozen=True, gc=False):
    at: int
    end: int


def unit_of(series: Series, window: Window) -> int:
    """The cells that steps of this length need: the largest that they can be put together from."""
    return max(series.grains) if window.step_ms is None else series.coarsest_within(window.step_ms)


def steps_of(window: Window, *, now: int, known_from: int) -> list[Step]:
    """The steps of a window that are wholly known and not in the future.

    Where there is none, one step: the last of the window of which a part is known, else the nearest that is known.
    """
    begins = [at for at in _begins(window, max(window.start, known_from), now) if at >= known_from]
    if begins:
        return [Step(at, min(_after(at, window), window.end)) for at in begins]
    last = _begin_of(window, max(window.start, min(window.end - 1, now)))
    if window.start <= now and min(_after(last, window), window.end) > known_from:
        return [Step(last, min(_after(last, window), window.end))]
    at = _begin_of(window, now)
    if window.start <= now:
        at = min(at, _begin_of(window, known_from, up=True))
    return [Step(at, _after(at, window))]


def _begins(window: Window, first: int, now: int) -> Iterator[int]:
    """Where steps begin, from `first` on; an empty window has one step, too."""
    at = _begin_of(window, first, up=True)
    while (at < window.end or at == window.start) and at <= now:
        yield at
        at = _after(at, window)


def _begin_of(window: Window, at: int, *, up: bool = False) -> int:
    """Where the step that holds an instant begins; with `up`, the first that begins no sooner than the instant."""
    if window.step_ms is not None:
        distance = (at - window.start) % window.step_ms
        return at - distance + (window.step_ms if up and distance else 0)
    begin = dates.month_start(at)
    return begin if begin == at or not up else dates.next_month(at)


def _after(at: int, window: Window) -> int:
    return at + window.step_ms if window.step_ms is not None else dates.next_month(at)


def cells_of(series: Series, window: Window, *, now: int) -> Iterator[Cell]:
    """Cells that cover the time up to now, without overlap: the finer they are, the sooner they are forgotten.

    They are no coarser than the steps allow, and no finer than it takes to begin and end where the window does.
    """
    unit = unit_of(series, window)
    fine = max((grain for grain in series.grains if grain <= unit and _fits(window, grain)), default=0)
    chosen = [grain for grain in sorted(series.grains) if (fine or min(series.grains)) <= grain <= unit]
    end: float = float("inf")
    for grain, coarser in zip(chosen, [*chosen[1:], None], strict=True):
        begin = 0 if coarser is None else -(-(now - KEPT_MS[grain]) // coarser) * coarser
        yield from ((at, row) for at, row in series.grains[grain].items() if begin <= at < end)
        end = begin


def _fits(window: Window, grain: int) -> bool:
    return window.start % grain == 0 and window.end % grain == 0


def added_up(cells: Iterable[Cell], steps: list[Step], width: int) -> tuple[list[Row], Row]:
    """What happened in each step, and what has happened since the last of them."""
    sums, since = [[0] * width for _ in steps], [0] * width
    begins = [step.at for step in steps]
    for at, row in cells:
        index = bisect_right(begins, at) - 1
        if index < 0:
            continue
        total = sums[index] if at < steps[index].end else since
        for column, amount in enumerate(row):
            total[column] += amount
    return sums, since


def by_calendar(window: Window) -> Window:
    """The window from the beginning of its first hour, day or month on."""
    if window.step_ms is None:
        return msgspec.structs.replace(window, start=dates.month_start(window.start))
    return msgspec.structs.replace(window, start=window.start - window.start % window.step_ms)
