"""Delivering again: one message, all of a span of time, or all that were missed.

A missed message is still there, among the listener's dead letters. One that was delivered is taken from its queue, or
from the journal, and put into the outbox anew.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from couriermq.broker import Broker
from couriermq.catalog import Catalog
from couriermq.core import webhook_ids
from couriermq.core.errors import BatchTooLarge, Invalid, MessageNotFound
from couriermq.core.events import Event, EventKind
from couriermq.core.limits import BATCH_COUNT
from couriermq.core.model import Attribute, Draft, Listener, Message, Queue, State
from couriermq.core.routing import Document, matches
from couriermq.journal.merging import forwards

CHUNK = 1_000
REPLAY_COUNT = 10_000
"""How many messages one replay of a span puts back; a longer span goes on from where it ended."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages will be delivered again, which could not be found, and where a long span goes on."""

    count: int
    missing: list[str] = []
    next_since: int | None = None


class Replays:
    """Asks the broker; everything it does is safe to do twice."""

    def __init__(self, broker: Broker, catalog: Catalog) -> None:
        self._broker = broker
        self._catalog = catalog

    async def missed(self, listener: Listener, *, principal: str) -> Replayed:
        dead = self._catalog.dead_letters(listener)
        outbox = self._catalog.outbox(listener)
        return Replayed(count=await self._broker.redrive(dead, target=outbox, principal=principal))

    async def chosen(self, listener: Listener, message_ids: Sequence[str], *, principal: str) -> Replayed:
        if not 1 <= len(message_ids) <= BATCH_COUNT:
            raise BatchTooLarge(len(message_ids), BATCH_COUNT)
        chosen = list(dict.fromkeys(message_ids))
        absent = [m for m in chosen if not await self._hurry(listener, m, principal=principal)]
        drafts = {m: draft for m in absent if (draft := await self._in_queue(listener, m))}
        left = set(absent) - set(drafts)
        if left:
            drafts |= await self._in_journal(listener, left)
        await self._send(listener, list(drafts.values()), principal=principal)
        missing = [message_id for message_id in absent if message_id not in drafts]
        return Replayed(count=len(chosen) - len(missing), missing=missing)

    async def span(self, listener: Listener, *, since: int, until: int, principal: str) -> Replayed:
        """Everything that was sent to the queue from `since` up to, not including, `until`."""
        if since >= until:
            raise Invalid("since comes before until", field="since")
        count = 0
        async for event in self._sent(listener, since, until):
            if count >= REPLAY_COUNT:
                return Replayed(count=count, next_since=event.at)
            count += await self._again(listener, event, principal=principal)
        return Replayed(count=count)

    async def _again(self, listener: Listener, event: Event, *, principal: str) -> bool:
        message_id = event.message_id or ""
        if await self._hurry(listener, message_id, principal=principal):
            return True
        draft = await self._in_queue(listener, message_id) or _draft(event)
        if draft is None or not matches(listener.settings.rules, draft.attributes, Document(draft.body)):
            return False
        await self._send(listener, [draft], principal=principal)
        return True

    # -- where a message may be -------------------------------------------------------------------------------

    async def _hurry(self, listener: Listener, message_id: str, *, principal: str) -> bool:
        """Put a dead letter, or one that waits for its next attempt, at the head; whether there was one."""
        outbox, dead = self._catalog.outbox(listener), self._catalog.dead_letters(listener)
        if waiting := await self._find(outbox, message_id):
            if waiting.state is State.DELAYED:
                await self._broker.hasten(outbox, seqs=[waiting.seq])
            return True
        if letter := await self._find(dead, message_id):
            await self._broker.redrive(dead, seqs=[letter.seq], target=outbox, principal=principal)
            return True
        return False

    async def _find(self, queue: Queue, message_id: str) -> Message | None:
        try:
            return await self._broker.read_message(queue, message_id)
        except MessageNotFound:
            return None

    async def _in_queue(self, listener: Listener, message_id: str) -> Draft | None:
        queue = self._catalog.queue_by_id(listener.tenant, listener.queue_id)
        message = await self._find(queue, message_id)
        if message is None:
            return None
        return Draft(
            id=message.id,
            body=message.body,
            content_type=message.content_type,
            attributes=_noted(message.attributes, message.id, sent_at=message.sent_at, body=message.body),
            trace=message.trace,
        )

    async def _in_journal(self, listener: Listener, message_ids: set[str]) -> dict[str, Draft]:
        found: dict[str, Draft] = {}
        async for event in self._sent(listener, 0, None):
            if event.message_id in message_ids and (draft := _draft(event)):
                found[event.message_id] = draft
        return found

    async def _sent(self, listener: Listener, since: int, until: int | None) -> AsyncIterator[Event]:
        """What was sent to the listener's queue, as far as the journal remembers, oldest first."""
        spans = await self._broker.spans()
        begins = await self._broker.offsets_at(since)
        starts = {lane: max(span.oldest, begins[lane]) for lane, span in spans.items()}
        async for entries, places in forwards(self._broker, starts, chunk=CHUNK):
            for entry in entries:
                event = entry.event
                if until is not None and event.at >= until:
                    return
                if event.kind == EventKind.SENT and event.queue_id == listener.queue_id and event.at >= since:
                    yield event
            if all(places[lane] >= span.next for lane, span in spans.items()):
                return  # what has come since then is not asked for

    async def _send(self, listener: Listener, drafts: list[Draft], *, principal: str) -> None:
        if drafts:
            await self._broker.send(self._catalog.outbox(listener), drafts, principal=principal)


def _draft(event: Event) -> Draft | None:
    """The message as the journal keeps it; a queue may have its bodies left out."""
    detail = event.detail or {}
    if "body" not in detail:
        return None
    message_id, body = event.message_id or "", detail["body"]
    return Draft(
        id=message_id,
        body=body,
        content_type=detail.get("content_type", "application/octet-stream"),
        attributes=_noted(detail.get("attributes") or {}, message_id, sent_at=event.at, body=body),
    )


def _noted(attributes: Mapping[str, Attribute], message_id: str, *, sent_at: int, body: bytes) -> dict[str, Attribute]:
    """The attributes with the id by which the receiver knows the message from the first time."""
    others = {name: value for name, value in attributes.items() if name != webhook_ids.ATTRIBUTE}
    if webhook_ids.looks_minted(message_id):
        return others
    return others | {webhook_ids.ATTRIBUTE: webhook_ids.derived(message_id, sent_at=sent_at, body=body)}
