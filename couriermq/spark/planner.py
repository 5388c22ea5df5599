"""Where a query begins, how far a batch goes and how it is divided into tasks.

Root's queries count with offsets. Those of a tenant have positions, which only the server can count with.
"""

import logging
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from couriermq.core.lanes import lane_named, lane_of
from couriermq.spark.journal import DataLoss, Ends, Wanted, is_long, ranges
from couriermq.spark.offsets import (
    EARLIEST,
    LATEST,
    Offsets,
    advance,
    by_lane,
    by_name,
    instant,
    locate,
    newest_of,
    stretches,
    texts,
)
from couriermq.spark.options import RANGES, OptionError, Options

REFRESH_S = 600
"""A stream that finds nothing moves on this often all the same: the server forgets positions that are too old."""

Place = int | str
Places = dict[str, Any]
"""Offsets or positions by lane, as Spark keeps them."""

log = logging.getLogger(__name__)


class Stretch(NamedTuple):
    """What one task reads of a lane."""

    lane: int
    start: Place
    stop: Place


class Planner(Protocol):
    """Works in the driver."""

    def start(self) -> Places:
        """Where the query begins."""

    def newest(self) -> Places: ...

    def end(self) -> Places:
        """Where a batch query ends."""

    def advance(self, start: Places, target: Places | None, most: int | None) -> Places:
        """How far the next batch goes: to `target`, or to the newest event, but at most so many events; `start` itself
        where nothing is new."""

    def stretches(self, start: Places, end: Places) -> list[Stretch]:
        """What tasks read; raises DataLoss where some of it is no longer kept."""


def planner_of(options: Options, wanted: Wanted) -> Planner:
    if options.journal.sees_offsets():
        return OffsetPlanner(options)
    if options.mode == RANGES:
        raise OptionError("mode ranges needs root's token: a tenant's credential does not see the journal's offsets")
    return PositionPlanner(options, wanted)


class OffsetPlanner:
    """For root: the driver counts."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._journal = options.journal

    def start(self) -> Offsets:
        """Lanes that the option does not speak of are read from their beginning."""
        return locate(self._journal, self._options.starting, others=lambda span: span.oldest)

    def newest(self) -> Offsets:
        return newest_of(self._journal.spans())

    def end(self) -> Offsets:
        """Lanes that the option does not speak of are read to their end."""
        newest = self.newest()
        asked = locate(self._journal, self._options.ending, others=lambda span: span.next)
        return {lane: min(offset, newest[lane]) for lane, offset in asked.items()}

    def advance(self, start: Offsets, target: Offsets | None, most: int | None) -> Offsets:
        return advance(start, self.newest() if target is None else target, most, self._journal.jumps())

    def stretches(self, start: Offsets, end: Offsets) -> list[Stretch]:
        self._check_kept(start, end)
        return [
            Stretch(lane_of(begin), *piece)
            for begin, stop in stretches(start, end, self._journal.jumps())
            for piece in self._pieces(begin, stop)
        ]

    def _pieces(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Segments are sent whole: one that two tasks share is sent and unpacked twice."""
        step = self._options.rows_per_partition
        borders = self._journal.borders(start, stop) if is_long(start, stop, step) else ()
        return ranges(start, stop, step, borders)

    def _check_kept(self, start: Offsets, end: Offsets) -> None:
        """Find out in the driver, in one sentence, rather than in a task's stack trace."""
        spans = self._journal.spans()
        for begin, _ in stretches(start, end):
            oldest = spans[lane_of(begin)].oldest
            if begin < oldest:
                lose(self._options, f"offsets {begin} to {oldest - 1} are no longer kept; the oldest is {oldest}")


class PositionPlanner:
    """For a tenant: the server counts, and only the tenant's own events that are wanted."""

    def __init__(self, options: Options, wanted: Wanted) -> None:
        self._options = options
        self._journal = options.journal
        self._wanted = wanted
        self._looked_until: dict[str, str] = {}
        """Up to which position there is nothing new after another one."""
        self._begins: dict[str, str] = {}
        """Where lanes began that the query has not come to yet."""
        self._moved_at_s = time.monotonic()

    def start(self) -> dict[str, str]:
        return self._locate(self._options.starting, others=lambda ends: ends.oldest)

    def newest(self) -> dict[str, str]:
        return by_name({lane: ends.next for lane, ends in self._journal.ends().items()})

    def end(self) -> dict[str, str]:
        return self._locate(self._options.ending, others=lambda ends: ends.next)

    def advance(self, start: dict[str, str], target: dict[str, str] | None, most: int | None) -> dict[str, str]:
        ends = self._journal.ends()
        newest = by_name({lane: one.next for lane, one in ends.items()}) if target is None else target
        new = {
            name: self._begins.setdefault(name, ends[lane_named(name)].first) for name in newest.keys() - start.keys()
        }
        reached, left = dict(start), most
        for index, name in enumerate(newest):
            share = None if left is None else -(-left // (len(newest) - index))
            found = self._find(lane_named(name), start.get(name) or new[name], newest[name], share)
            if found is not None:
                reached[name] = found[0]
                left = None if left is None else left - found[1]
        if reached == start and target is None and time.monotonic() - self._moved_at_s > REFRESH_S:
            reached = newest
        if reached != start:
            reached = {name: self._looked_until.get(begin, begin) for name, begin in new.items()} | reached
            self._begins.clear()
            self._moved_at_s = time.monotonic()
            self._looked_until.clear()
        return by_name(by_lane(reached))

    def _find(self, lane: int, begin: str, newest: str, most: int | None) -> tuple[str, int] | None:
        """How far a batch goes, and how many events it has; None where there is nothing new."""
        if begin == newest or most == 0:
            return None
        try:
            piece = self._journal.find(self._looked_until.get(begin, begin), newest, most or 1, self._wanted)
        except DataLoss as error:
            lose(self._options, str(error))
            piece = self._journal.find(self._journal.ends()[lane].oldest, newest, most or 1, self._wanted)
        if not piece.event_count:
            self._looked_until[begin] = newest
            return None
        return (newest, piece.event_count) if most is None else (piece.stop, piece.event_count)

    def stretches(self, start: dict[str, str], end: dict[str, str]) -> list[Stretch]:
        return [one for name, stop in end.items() for one in self._pieces(lane_named(name), start.get(name), stop)]

    def _pieces(self, lane: int, start: str | None, stop: str) -> Iterator[Stretch]:
        if start == stop:
            return
        rows, begin = self._options.rows_per_partition, start or self._journal.ends()[lane].first
        try:
            pieces = list(self._journal.plan(begin, stop, rows, self._wanted))
        except DataLoss as error:
            lose(self._options, str(error))
            pieces = list(self._journal.plan(self._journal.ends()[lane].oldest, stop, rows, self._wanted))
        yield from (Stretch(lane, piece.start, piece.stop) for piece in pieces if piece.event_count)

    def _locate(self, position: str, *, others: "Others") -> dict[str, str]:
        """What an option means now; lanes that it does not speak of stand where `others` says."""
        ends = self._journal.ends()
        if position in {EARLIEST, LATEST}:
            return by_name({lane: one.oldest if position == EARLIEST else one.next for lane, one in ends.items()})
        if (given := texts(position)) is not None:
            return by_name({lane: given.get(lane, others(one)) for lane, one in ends.items()})
        if position.isdecimal() or position.startswith("{"):
            raise OptionError(
                f"{position} is an offset, which is for root; a tenant's credential gives a position, a time, earliest"
                " or latest"
            )
        return by_name(self._journal.positions_at(instant(position)))


class Others(Protocol):
    def __call__(self, ends: Ends, /) -> str: ...


def lose(options: Options, sentence: str) -> None:
    """Raise DataLoss, or go on where the query may lose something."""
    if options.fail_on_data_loss:
        raise DataLoss(f"{sentence}. Set failOnDataLoss to false to go on without them")
    log.warning("%s: they are skipped", sentence)
