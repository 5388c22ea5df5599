"""`courier tail`: a queue as it lives.

On a terminal it is a table that renews itself, elsewhere one line an event.
"""

import sys
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.following import Wanted, event_line, event_words, kind_cell, pages, place
from couriermq.cli.options import QueueName, check_count
from couriermq.cli.quantities import show_age, show_size, show_time
from couriermq.cli.screen import Cell, Column, drawn
from couriermq.clock import SystemClock

if TYPE_CHECKING:
    from rich.console import Group

RATE_MS = 10_000
"""Rates are of the last ten seconds."""
RATED = ("sent", "received", "acked")
CHROME_LINES = 7
REFRESH_MS = 1_000
"""A terminal shows new counters and rates this often, whether or not something happens."""
WAIT_MS = 30_000
_COLUMNS = [Column("TIME"), Column("EVENT"), Column("MESSAGE", cut=True), Column("", cut=True)]
Json = dict[str, Any]


def tail(
    queue: QueueName,
    /,
    *,
    last: Annotated[int, Parameter(alias="-n")] = 0,
    remote: Remote = REMOTE,
) -> None:
    """Watch what happens in a queue, with its counters, until interrupted.

    Messages that come from another queue, as dead letters, by a redrive or a move, are shown as well.

    Parameters
    ----------
    last
        Start with the queue's events among the last N of the journal; with a tenant's credential, of the tenant.
    """
    check_count("--last", last)
    known = remote.client.get(remote.queue(queue))
    wait_ms = REFRESH_MS if remote.screen.is_terminal else WAIT_MS
    wanted = Wanted(tenant=known["tenant"], queue=known["id"], arrivals=True, bodies=remote.json, wait_ms=wait_ms)
    events = pages(remote.client, wanted, start=place(remote.client, last=last))
    if remote.screen.is_terminal:
        _watch(remote, known, events)
    else:
        _print(remote, known["id"], events)


def _print(remote: Remote, queue_id: str, events: Iterator[list[Json]]) -> None:
    for page in events:
        for event in page:
            if remote.json:
                remote.screen.record(event)
            else:
                remote.screen.line(event_line(event, here=queue_id))
        sys.stdout.flush()


def _watch(remote: Remote, queue: Json, events: Iterator[list[Json]]) -> None:
    from rich.live import Live  # noqa: PLC0415 - only a terminal needs it

    view = View(queue["id"], queue["name"])
    console = remote.screen.console()

    def refresh() -> None:
        view.counters = remote.client.get(remote.queue(queue["id"], "counters"))
        live.update(view.drawn(height=console.height, now=SystemClock().now()), refresh=True)

    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        refresh()
        for page in events:
            view.add(page)
            refresh()


class View:
    """What the screen shows: counters, rates, and as many of the last events as fit."""

    def __init__(self, queue_id: str, queue: str) -> None:
        self.queue_id = queue_id
        self.queue = queue
        self.counters: Json = {}
        self._events: deque[Json] = deque(maxlen=500)
        self._recent: dict[str, deque[int]] = {kind: deque() for kind in RATED}

    def add(self, events: list[Json]) -> None:
        self._events.extend(events)
        for event in events:
            if event["kind"] in self._recent:
                self._recent[event["kind"]].append(event["at"])

    def rate(self, kind: str, *, now: int) -> float:
        """Events of a kind per second, lately."""
        times = self._recent[kind]
        while times and times[0] < now - RATE_MS:
            times.popleft()
        return len(times) * 1000 / RATE_MS

    def drawn(self, *, height: int, now: int) -> "Group":
        from rich.console import Group  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        fitting = list(self._events)[-max(height - CHROME_LINES, 1) :]
        return Group(
            Text(self.queue, style="bold"),
            Text(self._counter_words()),
            Text(self._rate_words(now), style="dim"),
            Text(""),
            drawn(_COLUMNS, [self._row(event) for event in fitting]),
            Text("" if fitting else "nothing has happened yet; Ctrl-C ends the watch", style="dim"),
        )

    def _counter_words(self) -> str:
        figures, oldest = self.counters, self.counters["oldest_age_ms"]
        words = (
            f"{figures['ready_count']:,} ready   {figures['delayed_count']:,} delayed   "
            f"{figures['leased_count']:,} leased   {show_size(figures['byte_count'])}"
        )
        return words if oldest is None else f"{words}   oldest {show_age(oldest)}"

    def _rate_words(self, now: int) -> str:
        return "   ".join(f"{kind} {self.rate(kind, now=now):.1f}/s" for kind in RATED)

    def _row(self, event: Json) -> list[Cell]:
        words = event_words(event, here=self.queue_id)
        return [show_time(event["at"]), kind_cell(event), event["message_id"] or "", words]
