"""What this process is and does, for those who operate it."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from couriermq.clock import Clock
from couriermq.core.duties import ARCHIVE, DELIVERY, UPKEEP
from couriermq.telemetry.histogram import Histogram
from couriermq.telemetry.metrics import Measured
from couriermq.telemetry.traffic import Traffic

HIDDEN = "(hidden)"
SECRETS = frozenset(("root_token", "root_token_file", "store_file"))
"""Settings whose values nobody is told."""
DELIVERIES = "delivery"


class Pace(msgspec.Struct, frozen=True):
    """What the store did in a second on average since the last look, or since the start."""

    commits_per_second: float
    events_per_second: float
    batch_mean: float
    sync_p50_ms: float | None
    sync_p99_ms: float | None


class NodeFigures:
    """Reads plain numbers when somebody asks."""

    def __init__(self, store: Measured, clock: Clock) -> None:
        self.store = store
        self.traffic = Traffic()
        """The application's own, once there is one."""
        self.started_at = clock.now()
        self._clock = clock
        self._before = (self.started_at, 0, 0)

    @property
    def duties(self) -> list[str]:
        count = sum(self.store.holds(duty) for duty in DELIVERY)
        held = [duty for duty in (UPKEEP, ARCHIVE) if self.store.holds(duty)]
        return [*held, f"{DELIVERIES} ({count} of {len(DELIVERY)})"] if count else held

    def pace(self) -> Pace:
        metrics, now = self.store.metrics, self._clock.now()
        at, commits, events = self._before
        event_count = sum(metrics.events.values())
        seconds = max(1, now - at) / 1_000
        if now - at >= 1_000:
            self._before = now, metrics.commits, event_count
        return Pace(
            round((metrics.commits - commits) / seconds, 2),
            round((event_count - events) / seconds, 2),
            round(metrics.operations / metrics.commits, 2) if metrics.commits else 0.0,
            quantile_ms(metrics.sync_seconds, 0.5),
            quantile_ms(metrics.sync_seconds, 0.99),
        )


def quantile_ms(histogram: Histogram, share: float) -> float | None:
    """The upper bound of the bucket that a share of all observations does not exceed; None beyond the last bound."""
    wanted, seen = share * histogram.count, 0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
        seen += count
        if seen and seen >= wanted:
            return bound * 1_000
    return None


def free_bytes(folder: Path) -> int | None:
    try:
        stat = os.statvfs(folder)
    except OSError:
        return None
    return stat.f_bavail * stat.f_frsize


def size_of(folder: Path) -> int:
    """The bytes of all files below a folder; files that go away meanwhile are left out."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(root, name).stat().st_size
            except OSError:
                continue
    return total


def shown_setting(key: str, value: Any) -> Any:
    """A setting's value without secrets: of a URL neither the user nor the query."""
    if key in SECRETS:
        return None if value is None else HIDDEN
    if isinstance(value, str) and "://" in value:
        parts = urlsplit(value)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    return value if value is None or isinstance(value, str | int | float | bool) else _text(value)


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
