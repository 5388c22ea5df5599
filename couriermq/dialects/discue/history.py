"""The last day as the journal tells it: read once, kept in memory, and carried on from where it was left.

Where there are tables, they tell the older part of the day, tenant by tenant. Counts are exact by the minute. Of the
events themselves, and of messages that were delivered, the newest are kept.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TypeVar

import msgspec

from couriermq.broker import Broker
from couriermq.clock import Clock
from couriermq.core.errors import OffsetGone
from couriermq.core.events import Entry, Event, EventKind
from couriermq.core.model import DAY, MINUTE
from couriermq.dialects.discue import names
from couriermq.dialects.discue.table_history import Older, read_older
from couriermq.lake.border import Border
from couriermq.lake.following import Follower
from couriermq.lake.tables import Lake
from couriermq.web.call import Call

K = TypeVar("K")
V = TypeVar("V")

SCAN_COUNT = 500_000
"""How many events, the newest, the first question reads at most."""
KEPT_COUNT = 10_000
"""How many events of each group, and how many messages, are kept of each tenant."""

CONTROL = {
    EventKind.CREDENTIAL_ADDED: "api_key_added",
    EventKind.CREDENTIAL_CHANGED: "api_key_updated",
    EventKind.CREDENTIAL_DELETED: "api_key_deleted",
    EventKind.QUEUE_ADDED: "queue_added",
    EventKind.QUEUE_CHANGED: "queue_updated",
    EventKind.QUEUE_DELETED: "queue_deleted",
    EventKind.LISTENER_ADDED: "listener_added",
    EventKind.LISTENER_CHANGED: "listener_updated",
    EventKind.LISTENER_DELETED: "listener_deleted",
}
ADDED, OK, NOT_OK = "message_added", "message_published_ok", "message_published_not_ok"
PUBLISHED = {EventKind.ACKED: OK, EventKind.RELEASED: NOT_OK}
TYPES = (*CONTROL.values(), ADDED, OK, NOT_OK)
TAKEN = (*CONTROL, EventKind.SENT, *PUBLISHED)
"""The kinds that are looked at."""
GROUPS = {"api_keys": "api_key", "listeners": "listener", "messages": "message", "queues": "queue"}
"""What `events` may ask for, and how the types of the group begin."""
NOUNS = {kind: noun for kind in TYPES for noun in GROUPS.values() if kind.startswith(noun)}


class Happening(msgspec.Struct, frozen=True, gc=False):
    """An event as this dialect tells it."""

    offset: int
    at: int
    type: str
    subject_id: str
    subject_name: str
    principal: str
    queue_id: str | None = None
    listener_id: str | None = None
    seq: int | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands among the events of all lanes."""
        return self.at, self.offset


class Past:
    """What is known of one tenant."""

    def __init__(self) -> None:
        self.minutes: dict[int, dict[str, int]] = {}
        self.groups: dict[str, deque[Happening]] = {noun: deque(maxlen=KEPT_COUNT) for noun in GROUPS.values()}
        self.sent: OrderedDict[tuple[str, str], int] = OrderedDict()
        """The offset at which a message was sent, by queue and message id."""
        self.delivered: OrderedDict[tuple[str, str], int] = OrderedDict()
        """When the last listener had got it."""
        self.named: OrderedDict[str, str] = OrderedDict()
        """The names of messages that were sent with one."""

    def take(self, happening: Happening) -> None:
        self.count(happening.at - happening.at % MINUTE, happening.type)
        self.groups[NOUNS[happening.type]].append(happening)

    def count(self, start: int, kind: str, count: int = 1) -> None:
        minute = self.minutes.setdefault(start, {})
        minute[kind] = minute.get(kind, 0) + count

    def follow(self, older: "Past") -> None:
        """Let what is known here come after what an older past knows."""
        for start, minute in older.minutes.items():
            for kind, count in minute.items():
                self.count(start, kind, count)
        for noun, group in older.groups.items():
            self.groups[noun] = deque([*group, *self.groups[noun]], maxlen=KEPT_COUNT)
        self.sent = _joined(older.sent, self.sent)
        self.delivered = _joined(older.delivered, self.delivered)
        self.named = _joined(older.named, self.named)

    def counts(self, since: int) -> dict[str, int]:
        """How often each thing has happened since then, to the minute."""
        totals = dict.fromkeys(TYPES, 0)
        for start, minute in self.minutes.items():
            if start + MINUTE > since:
                for kind, count in minute.items():
                    totals[kind] += count
        return totals

    def happenings(self, noun: str | None) -> Iterator[Happening]:
        """Oldest first."""
        chosen = self.groups.values() if noun is None else [self.groups[noun]]
        return iter(sorted(chain(*chosen), key=attrgetter("place")))

    def forget(self, before: int) -> None:
        for start in [start for start in self.minutes if start + MINUTE <= before]:
            del self.minutes[start]
        for group in self.groups.values():
            while group and group[0].at < before:
                group.popleft()
        while self.delivered and next(iter(self.delivered.values())) < before:
            self.delivered.popitem(last=False)


class History:
    """Every tenant's last day."""

    def __init__(self, broker: Broker, clock: Clock, *, lake: Lake | None = None, scan_count: int = SCAN_COUNT) -> None:
        self._broker = broker
        self._lake = lake
        self._seeded: set[str] = set()
        self._clock = clock
        self._follower = Follower(broker, lake, scan_count=scan_count)
        self._pasts: dict[str, Past] = {}

    async def of(self, tenant: str) -> Past:
        """All that has happened to a tenant until now."""
        await self._catch_up()
        if self.border is not None and self._lake is not None and tenant not in self._seeded:
            await self._seed(self._lake, tenant, self.border)
        return self._pasts.setdefault(tenant, Past())

    async def sent_event(self, tenant: str, queue_id: str, message_id: str) -> tuple[Event, int] | None:
        """A message that every listener has got, as it was sent, and when the last of them had it."""
        await self._follower.on_disk(self._clock.now())
        past = await self.of(tenant)
        place = (queue_id, message_id)
        offset, delivered_at = past.sent.get(place), past.delivered.get(place)
        if offset is None or delivered_at is None:
            return None
        try:
            entries = await self._broker.read_events(start=offset, limit=1)
        except OffsetGone:
            return None
        return (entries[0].event, delivered_at) if entries else None

    # -- reading the tables -----------------------------------------------------------------------------------

    async def _seed(self, lake: Lake, tenant: str, border: Border) -> None:
        """Put the older part of a tenant's day, which the journal was not asked for, before what is known."""
        since = self._clock.now() - DAY
        read = partial(read_older, since=since, ends=border.offsets, most=KEPT_COUNT * len(GROUPS))
        older = await asyncio.to_thread(read, lake, tenant, TAKEN)
        if tenant not in self._seeded:
            self._seeded.add(tenant)
            self._pasts.setdefault(tenant, Past()).follow(self._past_of(older))

    def _past_of(self, older: Older) -> Past:
        past = Past()
        for start, kind, is_listeners, count in older.counts:
            told = _type_of(kind, is_listeners)
            if told is not None:
                past.count(start, told, count)
        for entry in older.entries:
            self._take(past, entry)
        return past

    # -- reading the journal ----------------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        await self._follower.catch_up(self._take_all, self._forget_all, since=self._clock.now() - DAY)
        self._forget()

    def _take_all(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            tenant = entry.event.tenant
            self._take(self._pasts.get(tenant) or self._pasts.setdefault(tenant, Past()), entry)

    def _forget_all(self) -> None:
        self._pasts.clear()
        self._seeded.clear()

    @property
    def border(self) -> Border | None:
        return self._follower.border

    def _forget(self) -> None:
        before = self._clock.now() - DAY
        for past in self._pasts.values():
            past.forget(before)

    def _take(self, past: Past, entry: Entry) -> None:
        event = entry.event
        if event.seq is not None:
            self._take_message(past, entry.offset, event)
        elif event.kind in CONTROL:
            past.take(_control(entry.offset, event))

    def _take_message(self, past: Past, offset: int, event: Event) -> None:
        queue_id, message_id = event.queue_id or "", event.message_id or ""
        place = (queue_id, message_id)
        listener_id = _listener_of(event)
        if listener_id is not None:
            if event.kind in PUBLISHED:
                past.take(_message(past, offset, event, PUBLISHED[EventKind(event.kind)], listener_id=listener_id))
        elif event.kind == EventKind.SENT:
            _keep(past.sent, place, offset)
            if name := names.given_name((event.detail or {}).get("attributes") or {}):
                _keep(past.named, message_id, name)
            past.take(_message(past, offset, event, ADDED))
        elif event.kind == EventKind.ACKED and (event.detail or {}).get("delivered"):
            _keep(past.delivered, place, event.at)


class Remembrance:
    """The history that handlers share, once the first of them has asked for it."""

    def __init__(self) -> None:
        self._history: History | None = None

    def history(self, call: Call) -> History:
        if self._history is None:
            self._history = History(call.services.broker, call.services.clock, lake=call.services.lake)
        return self._history


def _joined(older: OrderedDict[K, V], newer: OrderedDict[K, V]) -> OrderedDict[K, V]:
    joined = OrderedDict([*((key, value) for key, value in older.items() if key not in newer), *newer.items()])
    while len(joined) > KEPT_COUNT:
        joined.popitem(last=False)
    return joined


def _type_of(kind: str, is_listeners: bool) -> str | None:
    """How this dialect counts an event; None when it does not."""
    if kind in PUBLISHED:
        return PUBLISHED[EventKind(kind)] if is_listeners else None
    if kind == EventKind.SENT:
        return None if is_listeners else ADDED
    return CONTROL.get(EventKind(kind))


def _keep(kept: OrderedDict[K, V], key: K, value: V) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > KEPT_COUNT:
        kept.popitem(last=False)


def _listener_of(event: Event) -> str | None:
    """The id of the listener whose own queue it happened in: such a queue is named for it."""
    name = event.queue or ""
    return name[1:].partition("/")[0] if name.startswith("~") else None


def _message(past: Past, offset: int, event: Event, kind: str, *, listener_id: str | None = None) -> Happening:
    message_id = event.message_id or ""
    return Happening(
        offset, event.at, kind, message_id, past.named.get(message_id, message_id), event.principal or "",
        None if listener_id else event.queue_id, listener_id, event.seq,
    )  # fmt: skip


def _control(offset: int, event: Event) -> Happening:
    detail = event.detail or {}
    subject_id = str(detail.get("id", ""))
    return Happening(
        offset, event.at, CONTROL[EventKind(event.kind)], subject_id, str(detail.get("name", subject_id)),
        event.principal or "", event.queue_id,
    )  # fmt: skip
