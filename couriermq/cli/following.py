"""Events of the journal as they come: shared by `courier journal` and `courier tail`."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from couriermq.cli.client import Client, Refused, route
from couriermq.cli.quantities import show_duration, show_instant, show_size, show_time
from couriermq.cli.screen import Cell, Styled
from couriermq.core.events import EventKind

PAGE = 1_000
KIND_WIDTH = max(map(len, EventKind))
PAUSE_S = 0.5
"""How long to wait after the journal had nothing new."""

STYLES = {
    "sent": "green", "published": "green", "received": "yellow", "acked": "bold green", "released": "magenta",
    "lease_expired": "magenta", "dead_lettered": "red", "discarded": "red", "purged": "red", "cancelled": "red",
}  # fmt: skip
_CONTROL_PLANE = ("_added", "_changed", "_deleted")
_TOO_MUCH = {"body", "body_base64", "attributes", "content_type", "trace"}
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which events are of interest; None means all."""

    tenant: str | None = None
    queue: str | None = None
    kinds: frozenset[str] | None = None

    def lets_through(self, event: Json) -> bool:
        if self.kinds is not None and event["kind"] not in self.kinds:
            return False
        return self.queue is None or self.queue in (event["queue"], event["queue_id"])


def span(client: Client) -> tuple[int, int]:
    """The oldest offset that can be read and the next that will be written."""
    journal = client.get(route("journal"))
    return journal["oldest"], journal["next"]


def pages(client: Client, wanted: Wanted, *, start: int) -> Iterator[list[Json]]:
    """Wanted events page by page from `start` on; an empty page means that the journal has no more just now.

    Events that are forgotten while somebody reads slowly are left out: the reader goes on with the oldest there are.
    """
    while True:
        query = {"from": start, "limit": PAGE, "tenant": wanted.tenant}
        try:
            page = client.get(route("journal", "events"), query)
        except Refused as refused:
            oldest = span(client)[0] if refused.status == 410 else start
            if oldest <= start:
                raise
            start = oldest
            continue
        moved = page["next"] > start
        start = page["next"]
        found = [event for event in page["events"] if wanted.lets_through(event)]
        if found or not moved:
            yield found


def pause() -> None:
    time.sleep(PAUSE_S)


def event_line(event: Json, *, with_date: bool = False, with_queue: bool = True) -> str:
    """One event on one line."""
    when = show_instant(event["at"]) if with_date else show_time(event["at"])
    where = f"{event['tenant']}/{event['queue'] or ''}".rstrip("/").ljust(20) if with_queue else ""
    parts = (when, event["kind"].ljust(KIND_WIDTH), where, event["message_id"] or "", event_words(event))
    return "  ".join(part for part in parts if part)


def event_words(event: Json) -> str:
    """What else is worth saying about an event."""
    words = []
    if event["attempt"]:
        words.append(f"attempt {event['attempt']}")
    if event["size"] is not None and event["kind"] in ("sent", "published"):
        words.append(show_size(event["size"]))
    words.extend(_detail_words(event))
    if event["principal"]:
        words.append(f"by {event['principal']}")
    return ", ".join(words)


def _detail_words(event: Json) -> Iterator[str]:
    detail: Json = event["detail"] or {}
    if event["kind"].endswith(_CONTROL_PLANE):
        yield from (str(detail[name]) for name in ("name", "id") if detail.get(name))
        return
    for name, value in detail.items():
        if name not in _TOO_MUCH and isinstance(value, str | int | float):
            told = show_duration(int(value)) if name.endswith("_ms") else value
            yield f"{name.removesuffix('_ms').replace('_', ' ')} {told}"


def kind_cell(event: Json) -> Cell:
    return Styled(event["kind"], STYLES.get(event["kind"], "dim"))
