"""How a long job says how far it is: a bar with its rate for people, JSON lines for programs.

    with Progress("exporting", unit="message", total=120_000, json=screen.json) as progress:
        for page in pages:
            ...
            progress.advance(len(page))

Both are written to standard error, so that standard output holds nothing but the result. Somebody who watches gets one
bar, redrawn in place and gone at the end. Anybody else (a log, a pipe, `--json`) gets a line at most every second, and
a last one when the job has ended:

    {"job": "exporting", "done": 52000, "total": 120000, "unit": "message", "rate": 25800.0, "seconds": 2.0}
"""

import json as encoding
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from couriermq.cli.quantities import plural

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

LINE_EVERY_S = 1.0


class Progress:
    """Counts what a job has done; may be told from any thread. Without a `total` it does not know when it will end."""

    def __init__(
        self,
        job: str,
        *,
        unit: str,
        total: int | None = None,
        json: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.job = job
        self.unit = unit
        self.total = total
        self.done = 0
        self.facts: dict[str, Any] = {}
        self._clock = clock
        self._lock = threading.Lock()
        self._watched = sys.stderr.isatty() and not json
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._began_s = self._said_s = clock()

    def __enter__(self) -> Self:
        self._began_s = self._said_s = self._clock()
        if self._watched:
            self._bar, self._task = _open_bar(self.job, self.unit, self.total)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
            else:
                self._say({"ended": "done" if error is None else "failed"})

    @property
    def seconds(self) -> float:
        return self._clock() - self._began_s

    @property
    def rate(self) -> float:
        """Units a second since the beginning."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    def advance(self, count: int = 1, **facts: Any) -> None:
        """So many more are done; `facts` (such as `batch=3`) go into the line or behind the bar."""
        self.reach(self.done + count, **facts)

    def reach(self, done: int, *, total: int | None = None, **facts: Any) -> None:
        """So many are done altogether, of `total` if that is known by now."""
        with self._lock:
            self.done = done
            self.total = self.total if total is None else total
            self.facts.update(facts)
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, completed=done, total=self.total, facts=_words(self.facts))
            elif self._clock() - self._said_s >= LINE_EVERY_S:
                self._say()

    def _say(self, more: Mapping[str, Any] | None = None) -> None:
        self._said_s = self._clock()
        line = {"job": self.job, "done": self.done, "total": self.total, "unit": self.unit}
        line |= {"rate": round(self.rate, 1), "seconds": round(self.seconds, 3), **self.facts, **(more or {})}
        sys.stderr.write(encoding.dumps(line) + "\n")
        sys.stderr.flush()


def _words(facts: Mapping[str, Any]) -> str:
    return "  ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in facts.items()
    )


def _open_bar(job: str, unit: str, total: int | None) -> "tuple[Bar, TaskID]":
    from rich.console import Console  # noqa: PLC0415 - programs never need it
    from rich.progress import BarColumn, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f}/s", style="cyan")

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn(f"{{task.completed:,.0f}} {plural(unit)}"),
        Rate(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[facts]}", style="dim"),
        console=Console(stderr=True, highlight=False, markup=False, emoji=False),
        transient=True,
    )
    task = bar.add_task(job, total=total, facts="")
    bar.start()
    return bar, task
