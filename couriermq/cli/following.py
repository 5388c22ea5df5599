"""Events of the journal as they come: shared by `courier journal` and `courier tail`."""

from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from typing import Any

from couriermq.cli.client import Client, Query, Refused, route
from couriermq.cli.connection import Server
from couriermq.cli.quantities import show_duration, show_instant, show_size, show_time
from couriermq.cli.screen import Cell, Styled
from couriermq.core.events import TRANSFER_KINDS, EventKind

PAGE = 1_000
FILTERED_PAGE = 10_000
"""Offsets that one request covers when the server leaves out most of their events."""
WAITING_PAGES = 8
"""Pages of other shards that are kept until they are shown."""
KIND_WIDTH = max(map(len, EventKind))

STYLES = {
    "sent": "green", "published": "green", "received": "yellow", "acked": "bold green", "released": "magenta",
    "lease_expired": "magenta", "dead_lettered": "red", "discarded": "red", "purged": "red", "cancelled": "red",
}  # fmt: skip
_CONTROL_PLANE = ("_added", "_changed", "_deleted")
_TOO_MUCH = {"body", "body_base64", "attributes", "content_type", "trace"}
Json = dict[str, Any]
Position = int | str
"""Where to read on: an offset for root, for any other caller a text that the server has given."""
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

    def query(self, start: Position) -> Query:
        return {
            "from": start,
            "limit": FILTERED_PAGE if self.queue or self.kinds else PAGE,
            "tenant": self.tenant,
            "queue": self.queue,
            "kind": sorted(self.kinds) if self.kinds else None,
            "arrivals": "true" if self.arrivals else None,
            "bodies": None if self.bodies else "false",
            "wait_ms": self.wait_ms or None,
        }


def positions(client: Client, *, last: int | None = None) -> list[Position]:
    """Where each shard's journal begins, or where its last events that the caller may see do; with 0, where it ends."""
    shards = client.get(route("journal"))["shards"]
    if last is None:
        return [shard["oldest"] for shard in shards]
    if last and isinstance(shards[0]["next"], str):
        found = client.get(route("journal"), {"last": min(last, MOST_BEFORE)})["shards"]
        return [shard["offset"] for shard in found]
    return [max(shard["oldest"], shard["next"] - last) if last else shard["next"] for shard in shards]


def pages(client: Client, wanted: Wanted, *, start: Position, shard: int = 0) -> Iterator[list[Json]]:
    """Wanted events page by page from `start` on; an empty page means that there were no more, after the wait.

    Events that are trimmed while somebody reads slowly are left out: the reader goes on with the oldest there are.
    """
    lost = False
    while True:
        try:
            page = client.get(route("journal", "events"), wanted.query(start), wait_s=wanted.wait_ms / 1_000)
        except Refused as refused:
            if lost or refused.status != 410:
                raise
            start, lost = positions(client)[shard], True
            continue
        start, lost = page["next"], False
        if page["events"] or wanted.wait_ms or page["at_end"]:
            yield page["events"]


def live_pages(server: Server, wanted: Wanted, *, last: int) -> Iterator[list[Json]]:
    """Wanted events of every shard as they come, and those among the last `last` of each shard's journal first."""
    starts = positions(server.client, last=last)
    if len(starts) == 1:
        return pages(server.client, wanted, start=starts[0])
    return _merged(server, wanted, starts)


def _merged(server: Server, wanted: Wanted, starts: list[Position]) -> Iterator[list[Json]]:
    """Each shard has a connection and a thread of its own, because a wait for one must not hold up the others."""
    found: Queue[list[Json] | Exception] = Queue(WAITING_PAGES)

    def follow(shard: int, start: Position) -> None:
        try:
            with server.connect() as client:
                for page in pages(client, wanted, start=start, shard=shard):
                    if page:
                        found.put(page)
        except Exception as error:
            found.put(error)

    for shard, start in enumerate(starts):
        Thread(target=follow, args=(shard, start), daemon=True).start()
    while True:
        try:
            page = found.get(timeout=max(wanted.wait_ms, 1) / 1_000)
        except Empty:
            page = []
        if isinstance(page, Exception):
            raise page
        yield page


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
