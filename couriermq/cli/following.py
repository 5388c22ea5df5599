"""Events of the journal as they come: shared by `courier journal` and `courier tail`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from couriermq.cli.client import Client, Query, Refused, route
from couriermq.cli.quantities import show_duration, show_instant, show_size, show_time
from couriermq.cli.screen import Cell, Styled
from couriermq.core.events import TRANSFER_KINDS, EventKind

PAGE = 1_000
KIND_WIDTH = max(map(len, EventKind))

STYLES = {
    "sent": "green", "published": "green", "received": "yellow", "acked": "bold green", "released": "magenta",
    "lease_expired": "magenta", "dead_lettered": "red", "discarded": "red", "purged": "red", "cancelled": "red",
}  # fmt: skip
_CONTROL_PLANE = ("_added", "_changed", "_deleted")
_TOO_MUCH = {"body", "body_base64", "attributes", "content_type", "trace"}
Json = dict[str, Any]
MOST_BEFORE = 100_000
"""How many events before its end the server looks for."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which events to ask the server for; None means all."""

    tenant: str | None = None
    queue: str | None = None
    kinds: frozenset[str] | None = None
    arrivals: bool = False
    """Events that bring a message into the queue from another one, too."""
    bodies: bool = True
    wait_ms: int = 0
    """How long the server may wait for the first event when there is none."""

    def query(self, start: str | None) -> Query:
        return {
            "merged": "true",
            "lossy": "true",
            "from": start,
            "limit": PAGE,
            "tenant": self.tenant,
            "queue": self.queue,
            "kind": sorted(self.kinds) if self.kinds else None,
            "arrivals": "true" if self.arrivals else None,
            "bodies": None if self.bodies else "false",
            "wait_ms": self.wait_ms or None,
        }


def place(client: Client, *, last: int) -> str:
    """Where the last events that the caller may see begin, in all lanes; with 0, where the journal ends."""
    query: Query = {"last": min(last, MOST_BEFORE)} if last else {}
    return str(client.get(route("journal"), query)["merged"])


def pages(client: Client, wanted: Wanted, *, start: str | None) -> Iterator[list[Json]]:
    """Wanted events of all lanes page by page from `start` on, or from the oldest; an empty page means no more for now.

    Events that are trimmed while somebody reads slowly are left out: the reader goes on with the oldest there are.
    """
    lost = False
    while True:
        try:
            page = client.get(route("journal", "events"), wanted.query(start), wait_s=wanted.wait_ms / 1_000)
        except Refused as refused:  # trimmed in this moment
            if lost or refused.status != 410:
                raise
            lost = True
            continue
        start, lost = page["next"], False
        if page["events"] or wanted.wait_ms or page["at_end"]:
            yield page["events"]


def event_line(event: Json, *, with_date: bool = False, here: str | None = None) -> str:
    """One event on one line; `here` is the id of the queue whose events these are, which then need not be named."""
    when = show_instant(event["at"]) if with_date else show_time(event["at"])
    where = "" if here else f"{event['tenant']}/{event['queue'] or ''}".rstrip("/").ljust(20)
    parts = (when, event["kind"].ljust(KIND_WIDTH), where, event["message_id"] or "", event_words(event, here=here))
    return "  ".join(part for part in parts if part)


def event_words(event: Json, *, here: str | None = None) -> str:
    """What else is worth saying about an event."""
    words = []
    arrived = here is not None and arrives(event, here)
    if arrived:
        words.append(f"from {event['queue'] or 'another queue'}")
    if event["attempt"]:
        words.append(f"attempt {event['attempt']}")
    if event["size"] is not None and event["kind"] in ("sent", "published"):
        words.append(show_size(event["size"]))
    words.extend(_detail_words(event, without={"target", "target_id"} if arrived else {"target_id"}))
    if event["principal"]:
        words.append(f"by {event['principal']}")
    return ", ".join(words)


def arrives(event: Json, queue_id: str) -> bool:
    """Whether the event brings its message into the queue from another one."""
    detail: Json = event["detail"] or {}
    return event["kind"] in TRANSFER_KINDS and detail.get("target_id") == queue_id and event["queue_id"] != queue_id


def _detail_words(event: Json, *, without: set[str]) -> Iterator[str]:
    detail: Json = event["detail"] or {}
    if event["kind"].endswith(_CONTROL_PLANE):
        yield from (str(detail[name]) for name in ("name", "id") if detail.get(name))
        return
    for name, value in detail.items():
        if name not in _TOO_MUCH | without and isinstance(value, str | int | float):
            told = show_duration(int(value)) if name.endswith("_ms") else value
            yield f"{name.removesuffix('_ms').replace('_', ' ')} {told}"


def kind_cell(event: Json) -> Cell:
    return Styled(event["kind"], STYLES.get(event["kind"], "dim"))
