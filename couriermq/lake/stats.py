"""A queue's past in steps: from the tables as far as they go, and from the journal for what is newer."""

import asyncio
from collections.abc import Sequence

import msgspec

from couriermq.core.model import MINUTE, Counters, Queue
from couriermq.lake import minutes as tables
from couriermq.lake.border import Border
from couriermq.lake.minutes import COUNTED, ENTERED, LEFT, QUANTILES, Minute, step_of
from couriermq.lake.recent import Counts, Recent
from couriermq.lake.tables import Lake

SHOWN = (*COUNTED, "moved_out", "arrived")


class Step(msgspec.Struct):
    """What happened in a step, and how it was at its end."""

    at: int
    counts: dict[str, int]
    backlog: int
    oldest_age_ms: int | None = None
    quantiles: tuple[float | None, ...] = (None,) * len(QUANTILES)


class Course(msgspec.Struct, frozen=True):
    """Steps in order, from the first of which something is known; before `border` they are from the tables."""

    steps: list[Step]
    border: Border | None


class Stats:
    """The past of queues, for whoever asks."""

    def __init__(self, lake: Lake, recent: Recent) -> None:
        self._lake = lake
        self._recent = recent

    async def of(self, queue: Queue, now_counters: Counters, *, start: int, end: int, step: int, now: int) -> Course:
        """Steps from `start` up to `end`; `now_counters` are the queue's figures of this moment."""
        await self._recent.catch_up()
        newer, border = self._recent.minutes(queue.id), self._recent.border
        older: list[Minute] = []
        first = max(step_of(start, step), self._recent.known_from if border is None else 0)
        if border is not None:
            older = await asyncio.to_thread(self._older, queue, step_of(start, step), border.at)
        last = min(end, now + 1)
        steps = {at: Step(at, dict.fromkeys(SHOWN, 0), 0) for at in range(step_of(first, step), last, step)}
        self._count(steps, older, newer, border, step)
        _level(steps, older, newer, border, now_counters, step)
        if border is not None and step > MINUTE:
            await asyncio.to_thread(self._time, queue, steps, border.at, step)
        return Course(list(steps.values()), border)

    async def totals(
        self, tenant: str, queues: Sequence[Queue], *, start: int, end: int
    ) -> tuple[dict[str, dict[str, int]], Border | None]:
        """What happened in each queue from the minute of `start` on and before `end`."""
        found = {queue.name: dict.fromkeys(SHOWN, 0) for queue in queues}
        first = step_of(start)
        await self._recent.catch_up()
        newer, border = {queue.name: self._recent.minutes(queue.id) for queue in queues}, self._recent.border
        if border is not None and first < border.at:
            sums = await asyncio.to_thread(
                tables.totals, self._lake, tenant, queues, start=first, end=min(end, border.at)
            )
            for name in found.keys() & sums.keys():
                found[name] |= sums[name]
        for name, minutes in newer.items():
            for at, counts in minutes.items():
                if max(first, border.at if border else 0) <= at < end:
                    found[name] = {column: found[name][column] + counts.get(column, 0) for column in SHOWN}
        return found, border

    def _older(self, queue: Queue, start: int, end: int) -> list[Minute]:
        """The minutes of the tables, the last one before `start` included: what it says still holds there."""
        since = max(start, step_of(queue.created_at))  # before that, the name was another queue's
        before = tables.last_minute(self._lake, queue, before=since) if since == start else None
        found = tables.queue_minutes(self._lake, queue, start=since, end=max(end, since))
        return [*([before] if before else []), *found]

    def _count(
        self, steps: dict[int, Step], older: list[Minute], newer: dict[int, Counts], border: Border | None, step: int
    ) -> None:
        for minute in older:
            _add(steps, minute.at, minute.counts, step)
        for at, counts in newer.items():
            if border is None or at >= border.at:
                _add(steps, at, counts, step)

    def _time(self, queue: Queue, steps: dict[int, Step], end: int, step: int) -> None:
        """Percentiles do not add up, so those of long steps are taken from the messages themselves."""
        found = tables.latencies(self._lake, queue, start=min(steps, default=0), end=end, step=step)
        for at, quantiles in found.items():
            if at in steps:
                steps[at].quantiles = quantiles


def _add(steps: dict[int, Step], at: int, counts: Counts, step: int) -> None:
    target = steps.get(step_of(at, step))
    if target is not None:
        for name, count in counts.items():
            target.counts[name] += count


def _level(
    steps: dict[int, Step],
    older: list[Minute],
    newer: dict[int, Counts],
    border: Border | None,
    now_counters: Counters,
    step: int,
) -> None:
    """How many messages there were at the end of each step: as the tables say, and from there on reckoned from now."""
    beyond = border.at if border is not None else 0
    level = now_counters.total_count
    changes = {at: _change(counts) for at, counts in newer.items() if at >= beyond}
    by_step: dict[int, int] = {}
    for at, change in changes.items():
        by_step[step_of(at, step)] = by_step.get(step_of(at, step), 0) + change
    for at in sorted(steps, reverse=True):
        if at + step <= beyond:
            break
        steps[at].backlog = level
        level -= by_step.get(at, 0)
    held, index = None, 0
    for at in sorted(steps):
        if at + step > beyond:
            break
        while index < len(older) and older[index].at < at + step:
            held = older[index]
            index += 1
        if held is not None:
            steps[at].backlog = held.backlog
            steps[at].oldest_age_ms = _age(held, at + step)
            if held.at == at and step == MINUTE:
                steps[at].quantiles = held.quantiles


def _age(minute: Minute, end: int) -> int | None:
    """The oldest is as much older as time has passed since, for nothing has happened to it."""
    return None if minute.oldest_age_ms is None else minute.oldest_age_ms + end - (minute.at + MINUTE)


def _change(counts: Counts) -> int:
    return sum(counts.get(name, 0) for name in ENTERED) - sum(counts.get(name, 0) for name in LEFT)
