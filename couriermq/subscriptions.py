"""Event subscriptions whose source is `queues`: what happens to queues becomes messages in another queue.

The feed reads the journal, so that it sees the changes that any dialect makes. A cursor keeps its place: an event is
sent at least once, also across restarts, and a repetition has the same message id.
"""

import contextlib
import hashlib
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from couriermq.broker import Broker
from couriermq.catalog import Catalog
from couriermq.clock import Clock
from couriermq.core.content_types import JSON, MIME
from couriermq.core.duties import UPKEEP
from couriermq.core.errors import CourierError, CursorNotFound, OffsetGone, StorageExceeded, Unavailable
from couriermq.core.events import Entry, Event, EventKind
from couriermq.core.hex_ids import hex_of, queue_hex, tenant_hex
from couriermq.core.lanes import lane_of
from couriermq.core.limits import BATCH_COUNT
from couriermq.core.model import SECOND, Draft, Json, Queue, Record
from couriermq.journal.cursors import Cursors
from couriermq.journal.merging import Places, forwards

RECORD = "cloudflare.subscription"
SOURCE = "queues"
CURSOR = "event-subscriptions"
PRINCIPAL = "event-subscription"
SOURCE_ATTRIBUTE = "CF-sourceMessageSource"

NAMES: dict[str, str] = {
    EventKind.QUEUE_ADDED: "queue.created",
    EventKind.QUEUE_CHANGED: "queue.updated",
    EventKind.QUEUE_DELETED: "queue.deleted",
    EventKind.DEAD_LETTERED: "message.deadLettered",
}
"""The kinds of events that can be subscribed to, and their names."""

LOOK_MS = SECOND
SAVE_MS = 30 * SECOND
CHUNK = 1_000

log = logging.getLogger(__name__)


class Subscription(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The document of a record."""

    name: str
    enabled: bool
    source: dict[str, Any]
    queue_id: str
    events: list[str]
    enabled_at: int | None = None
    """When it was last switched on; None for one that has been on since it was made, or never."""


def subscription_of(record: Record) -> Subscription:
    return msgspec.convert(record.document, Subscription)


def _since(record: Record, subscription: Subscription) -> int:
    """From when on events are for a subscription that is on."""
    return record.created_at if subscription.enabled_at is None else subscription.enabled_at


class EventFeed:
    """Sends events to the subscriptions that ask for them, on the node that holds the duty of upkeep."""

    def __init__(
        self, broker: Broker, catalog: Catalog, clock: Clock, cursors: Cursors, *, holds: Callable[[str], bool]
    ) -> None:
        self._broker = broker
        self._catalog = catalog
        self._clock = clock
        self._cursors = cursors
        self._holds = holds
        self._places: Places = {}
        """The next offset of each lane; empty until the feed has found its place."""
        self._saved_at = 0
        self._begun: dict[str, int] = {}
        """When subscriptions were last changed, as far as was read: what follows in the same millisecond is theirs."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
            except CourierError as error:
                log.warning("event subscriptions wait: %s", error)
            await self._clock.sleep_until(self._clock.now() + LOOK_MS)

    async def look(self) -> None:
        """Send what has happened since the last look."""
        subscribed = self._subscribed() if self._holds(UPKEEP) else []
        if not subscribed:
            await self._leave()
            return
        try:
            await self._find_place(subscribed)
            async for entries, places in forwards(self._broker, self._places, chunk=CHUNK):
                if any(_is_about_subscription(entry.event) for entry in entries):
                    await self._catalog.catch_up()  # another node may have made the change
                # The list is no older than the entries: whoever subscribed while they were read gets what follows.
                sent = await self._send(entries, self._subscribed())
                self._places = places
                if sent or self._clock.now() >= self._saved_at + SAVE_MS:
                    await self._save()
        except OffsetGone:
            log.warning("events were forgotten before event subscriptions got them")
            spans = await self._broker.spans()
            self._places = {lane: max(self._places.get(lane, 0), span.oldest) for lane, span in spans.items()}

    def _subscribed(self) -> list[tuple[Record, Subscription]]:
        records = [record for tenant in self._catalog.tenants() for record in self._catalog.records(RECORD, tenant.id)]
        found = [(record, subscription_of(record)) for record in records]
        return [pair for pair in found if pair[1].enabled and pair[1].source.get("type") == SOURCE]

    async def _leave(self) -> None:
        """Nobody wants events, or another node sends them: do not hold back the end of the journal."""
        self._places = {}
        self._begun.clear()
        if self._holds(UPKEEP) and any(cursor.name == CURSOR for cursor in self._cursors.all()):
            with contextlib.suppress(CursorNotFound):  # another node was faster
                await self._cursors.delete(CURSOR)

    async def _find_place(self, subscribed: Sequence[tuple[Record, Subscription]]) -> None:
        """Go on after the cursor of each lane; without one, begin where the first subscription was switched on."""
        spans = await self._broker.spans()
        kept = {lane_of(cursor.offset): cursor.offset for cursor in self._cursors.all() if cursor.name == CURSOR}
        since = min(_since(record, subscription) for record, subscription in subscribed)
        if spans.keys() - self._places.keys():
            begins = await self._broker.offsets_at(since)
            found = {lane: max(kept.get(lane, begins[lane]), span.oldest) for lane, span in spans.items()}
            self._places = found | self._places

    async def _save(self) -> None:
        for place in self._places.values():
            await self._cursors.advance(CURSOR, place)
        self._saved_at = self._clock.now()

    async def _send(self, entries: Sequence[Entry], subscribed: Sequence[tuple[Record, Subscription]]) -> bool:
        targets = {subscription.queue_id for _, subscription in subscribed}
        by_queue: dict[str, list[Draft]] = {}
        for entry in entries:
            self._note_beginning(entry.event)
            name = _name(entry.event, targets)
            for record, subscription in subscribed if name else ():
                if name in subscription.events and self._is_for(entry.event, record, _since(record, subscription)):
                    draft = self._draft(entry, name, record)
                    by_queue.setdefault(subscription.queue_id, []).append(draft)
        for queue_id, drafts in by_queue.items():
            if (queue := self._catalog.queue_of_id(queue_id)) is not None:
                await self._send_to(queue, drafts)
        return bool(by_queue)

    async def _send_to(self, queue: Queue, drafts: Sequence[Draft]) -> None:
        """A tenant whose quota is used up loses its events: waiting would hold up those of all other tenants.

        So are events lost that the queue refuses. What cannot be stored now is raised, and sent again by the next look.
        """
        for start in range(0, len(drafts), BATCH_COUNT):
            try:
                outcomes = await self._broker.send(queue, drafts[start : start + BATCH_COUNT], principal=PRINCIPAL)
            except StorageExceeded as error:
                _log_lost(queue, len(drafts) - start, error)
                return
            refusals = [outcome for outcome in outcomes if isinstance(outcome, CourierError)]
            for refusal in refusals:
                if isinstance(refusal, Unavailable):
                    raise refusal
            if refusals:
                _log_lost(queue, len(refusals), refusals[0])

    def _note_beginning(self, event: Event) -> None:
        if not _is_about_subscription(event):
            return
        detail = event.detail or {}
        if event.kind in (EventKind.RECORD_ADDED, EventKind.RECORD_CHANGED):
            self._begun[detail["id"]] = event.at
        elif event.kind == EventKind.RECORD_DELETED:
            self._begun.pop(detail["id"], None)

    def _is_for(self, event: Event, record: Record, since: int) -> bool:
        later = event.at > since or (event.at == since and self._begun.get(record.id) == since)
        return later and event.tenant == record.tenant

    def _draft(self, entry: Entry, name: str, record: Record) -> Draft:
        tenant = self._catalog.tenant(record.tenant)
        event = entry.event
        document = {
            "type": f"cf.{SOURCE}.{name}",
            "source": {"type": SOURCE},
            "payload": self._payload(event),
            "metadata": {
                "accountId": tenant_hex(tenant.id, tenant.aliases),
                "eventSubscriptionId": hex_of(record.id),
                "eventSchemaVersion": 1,
                "eventTimestamp": _timestamp(event.at),
            },
        }
        identity = hashlib.blake2b(f"{record.id}/{entry.offset}".encode(), digest_size=16).hexdigest()
        return Draft(
            body=msgspec.json.encode(document),
            content_type=MIME[JSON],
            attributes={SOURCE_ATTRIBUTE: SOURCE},
            id=identity,
        )

    def _payload(self, event: Event) -> dict[str, Json]:
        detail = event.detail or {}
        payload: dict[str, Json] = {"id": self._shown(event.queue_id, detail.get("aliases")), "name": event.queue}
        if event.kind == EventKind.DEAD_LETTERED:
            payload |= {
                "messageId": None if event.message_id is None else hex_of(event.message_id),
                "attempts": event.attempt,
                "reason": detail.get("reason"),
                "deadLetterQueueId": self._shown(detail.get("target_id")),
            }
        return payload

    def _shown(self, queue_id: str | None, aliases: dict[str, str] | None = None) -> str | None:
        """The id of a queue as the dialect shows it elsewhere; an event about the queue itself has its aliases."""
        if queue_id is None:
            return None
        if aliases is None:
            queue = self._catalog.queue_of_id(queue_id)
            aliases = {} if queue is None else queue.aliases
        return queue_hex(queue_id, aliases)


def _is_about_subscription(event: Event) -> bool:
    return (event.detail or {}).get("kind") == RECORD


def _log_lost(queue: Queue, count: int, error: CourierError) -> None:
    log.warning("%d events for queue %s of tenant %s are lost: %s", count, queue.name, queue.tenant, error)


def _name(event: Event, targets: set[str]) -> str | None:
    """The name of an event that can be subscribed to.

    Listeners' own queues are not for callers. An event that died in the queue that it was sent to is no event again:
    it would feed itself.
    """
    if event.queue is None or event.queue.startswith("~"):
        return None
    if event.kind == EventKind.DEAD_LETTERED and event.queue_id in targets:
        return None
    return NAMES.get(event.kind)


def _timestamp(at: int) -> str:
    return datetime.fromtimestamp(at / SECOND, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
