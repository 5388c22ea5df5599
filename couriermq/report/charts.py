"""Charts as SVG: lines over time, bars by name, and lines so small that they stand in a row of a table.

Colours are classes (`c1` to `c6`), so that the page decides what they look like in light and in dark. What a point or a
bar stands for is written in a `title`, which browsers show and screen readers read.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from couriermq.report.scales import Scale, show_moment, show_number, show_tick, time_ticks

WIDTH, HEIGHT = 640, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 22, 12, 28
BARS_WIDTH, BAR_HEIGHT, BAR_GAP, BAR_LABEL, BAR_VALUE = 440, 21, 9, 172, 132
SPARK_WIDTH, SPARK_HEIGHT = 120, 22

Show = Callable[[float], str]


class Series(NamedTuple):
    """Values at the same instants as those of its neighbours; None where there is none."""

    name: str
    colour: str
    values: Sequence[float | None]


class Bar(NamedTuple):
    label: str
    value: float
    note: str
    """What stands behind the bar."""
    colour: str = "c1"


def lines(
    label: str,
    times: Sequence[int],
    series: Sequence[Series],
    scale: Scale,
    *,
    show: Show = show_number,
    filled: bool = False,
) -> str:
    """Lines over time, one above the other where they differ."""
    paper = _Paper(times, scale)
    marks = [paper.grid(show), *(paper.line(one, filled=filled) for one in series), paper.hover(series, show)]
    return _svg(label, WIDTH, HEIGHT, "".join(marks))


class _Paper:
    """Where things are drawn: the axes, and what instants and values are on them."""

    def __init__(self, times: Sequence[int], scale: Scale) -> None:
        self._times = times
        self._scale = scale
        self._span = max(times[-1] - times[0], 1)

    def _x(self, at: int) -> float:
        return LEFT + (at - self._times[0]) / self._span * (WIDTH - LEFT - RIGHT)

    def _y(self, value: float) -> float:
        return HEIGHT - BOTTOM - self._scale.share(value) * (HEIGHT - TOP - BOTTOM)

    def grid(self, show: Show) -> str:
        marks = []
        for tick in self._scale.ticks:
            y = self._y(tick)
            marks.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            marks.append(f'<text class="tick end" x="{LEFT - 8}" y="{y + 3.5:.1f}">{escape(show(tick))}</text>')
        for at in time_ticks(self._times[0], self._times[-1]):
            words = show_tick(at, self._span)
            marks.append(f'<text class="tick middle" x="{self._x(at):.1f}" y="{HEIGHT - 8}">{escape(words)}</text>')
        return "".join(marks)

    def line(self, series: Series, *, filled: bool) -> str:
        marks = []
        for run in _runs(self._times, series.values):
            points = [(self._x(at), self._y(value)) for at, value in run]
            path = "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
            if len(points) == 1:
                marks.append(
                    f'<circle class="dot {series.colour}" cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="3"/>'
                )
                continue
            if filled:
                floor = HEIGHT - BOTTOM
                area = f"M{points[0][0]:.1f},{floor}L{path}L{points[-1][0]:.1f},{floor}Z"
                marks.append(f'<path class="area {series.colour}" d="{area}"/>')
            marks.append(f'<path class="line {series.colour}" d="M{path}"/>')
        return "".join(marks)

    def hover(self, series: Sequence[Series], show: Show) -> str:
        """A strip over each instant that tells its values to whoever points at it."""
        width = (WIDTH - LEFT - RIGHT) / len(self._times)
        strips = []
        for index, at in enumerate(self._times):
            values = [(one.name, one.values[index]) for one in series]
            told = [f"{name}: {show(value)}" for name, value in values if value is not None]
            words = "\n".join([show_moment(at), *told])
            left = max(LEFT, self._x(at) - width / 2)
            strips.append(
                f'<rect class="strip" x="{left:.1f}" y="{TOP}" width="{width:.1f}" height="{HEIGHT - TOP - BOTTOM}">'
                f"<title>{escape(words)}</title></rect>"
            )
        return "".join(strips)


def _runs(times: Sequence[int], values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Stretches without a hole."""
    runs: list[list[tuple[int, float]]] = [[]]
    for at, value in zip(times, values, strict=True):
        if value is not None:
            runs[-1].append((at, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def bars(label: str, rows: Sequence[Bar]) -> str:
    """Bars by name, from the left; what they amount to stands behind them."""
    most = max((row.value for row in rows), default=0) or 1
    room = BARS_WIDTH - BAR_LABEL - BAR_VALUE
    marks = []
    for index, row in enumerate(rows):
        y = index * (BAR_HEIGHT + BAR_GAP)
        width = max(2.0, row.value / most * room)
        middle = y + BAR_HEIGHT / 2 + 4
        marks.append(
            f'<text class="label end" x="{BAR_LABEL - 10}" y="{middle:.1f}">{escape(_short(row.label))}'
            f"<title>{escape(row.label)}</title></text>"
            f'<rect class="bar {row.colour}" x="{BAR_LABEL}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT}" rx="3">'
            f"<title>{escape(f'{row.label}: {row.note}')}</title></rect>"
            f'<text class="value" x="{BAR_LABEL + width + 8:.1f}" y="{middle:.1f}">{escape(row.note)}</text>'
        )
    return _svg(label, BARS_WIDTH, max(1, len(rows)) * (BAR_HEIGHT + BAR_GAP), "".join(marks))


def _short(label: str, most: int = 20) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def spark(label: str, values: Sequence[float | None], colour: str) -> str:
    """A line without axes; its height is that of its largest value."""
    known = [value or 0 for value in values]
    most = max(known, default=0) or 1
    step = SPARK_WIDTH / max(1, len(known) - 1)
    points = [(index * step, SPARK_HEIGHT - 2 - value / most * (SPARK_HEIGHT - 4)) for index, value in enumerate(known)]
    path = "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"M0,{SPARK_HEIGHT}L{path}L{SPARK_WIDTH},{SPARK_HEIGHT}Z"
    marks = f'<path class="area {colour}" d="{area}"/><path class="line thin {colour}" d="M{path}"/>'
    return _svg(label, SPARK_WIDTH, SPARK_HEIGHT, marks, kind="spark")


def _svg(label: str, width: int, height: int, marks: str, *, kind: str = "chart") -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label, quote=True)}">'
        f"{marks}</svg>"
    )
