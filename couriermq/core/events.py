"""The journal's vocabulary: everything that happens is one event of one kind."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import groupby

import msgspec

from couriermq.core.model import Draft, Json, Queue


class EventKind(StrEnum):
    SENT = "sent"
    RECEIVED = "received"
    ACKED = "acked"
    RELEASED = "released"
    EXTENDED = "extended"
    LEASE_EXPIRED = "lease_expired"
    DEAD_LETTERED = "dead_lettered"
    DISCARDED = "discarded"
    PURGED = "purged"
    REDRIVEN = "redriven"
    MOVED = "moved"
    CANCELLED = "cancelled"
    PUBLISHED = "published"
    """A message reached an exchange; `detail` says how many queues got it."""

    TENANT_ADDED = "tenant_added"
    TENANT_CHANGED = "tenant_changed"
    TENANT_DELETED = "tenant_deleted"
    QUEUE_ADDED = "queue_added"
    QUEUE_CHANGED = "queue_changed"
    QUEUE_DELETED = "queue_deleted"
    EXCHANGE_ADDED = "exchange_added"
    EXCHANGE_CHANGED = "exchange_changed"
    EXCHANGE_DELETED = "exchange_deleted"
    BINDING_ADDED = "binding_added"
    BINDING_CHANGED = "binding_changed"
    BINDING_DELETED = "binding_deleted"
    LISTENER_ADDED = "listener_added"
    LISTENER_CHANGED = "listener_changed"
    LISTENER_DELETED = "listener_deleted"
    CREDENTIAL_ADDED = "credential_added"
    CREDENTIAL_CHANGED = "credential_changed"
    CREDENTIAL_DELETED = "credential_deleted"
    RECORD_ADDED = "record_added"
    RECORD_CHANGED = "record_changed"
    RECORD_DELETED = "record_deleted"

    SIGNED_IN = "signed_in"
    DENIED = "denied"
    DAMAGED = "damaged"
    """An event of a journal row that was damaged on the disk: nothing is known of it but its offset."""
    SECRET_READ = "secret_read"  # noqa: S105 - the name of a kind

    INCARNATION_BEGAN = "incarnation_began"
    """The store was restored from a copy; `detail` says why, and what it is called now."""


AUDIT_KINDS = frozenset({EventKind.SIGNED_IN, EventKind.DENIED, EventKind.SECRET_READ})
"""What only root and callers with the scope `audit` may read."""
TRANSFER_KINDS = frozenset({EventKind.DEAD_LETTERED, EventKind.REDRIVEN, EventKind.MOVED})
"""A message leaves the event's queue for another one, which `detail` names in `target_id` and `target`.

A message that died and was discarded, because its queue has no dead letter queue, has no target.
"""
CHANGE_KINDS = frozenset(kind for kind in EventKind if kind.endswith(("_added", "_changed", "_deleted")))
"""Changes of the control plane."""


class Event(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One change. The journal stores the fields in this order: append new ones, never reorder.

    `detail` carries what only some kinds have: for `sent` the body, content type, attributes, group and delay;
    for `released` the delay; for `dead_lettered` the reason and the target queue; and so on.
    """

    kind: str
    at: int
    tenant: str
    queue_id: str | None = None
    queue: str | None = None
    """The queue's (or exchange's) name when it happened."""
    seq: int | None = None
    message_id: str | None = None
    attempt: int | None = None
    size: int | None = None
    principal: str | None = None
    detail: dict[str, Json] | None = None
    turn: int | None = None
    """Which event of its message this is: `sent` is 1 and each further one is the next, in whichever queue, shard or
    node it happens. None where the engine, or the version that wrote the event, does not count."""
    sent_at: int | None = None
    """When the message was first sent; moves and dead letters keep it."""


def sent_detail(draft: Draft, queue: Queue, delay_ms: int) -> dict[str, Json]:
    """What the journal tells of a message that is sent, besides its body; a queue may have attributes left out."""
    if _is_plain(draft) and not delay_ms:
        return _plain_detail(draft.content_type)
    detail: dict[str, Json] = {"content_type": draft.content_type}
    if delay_ms:
        detail["delay_ms"] = delay_ms
    if draft.group is not None:
        detail["group"] = draft.group
    if draft.trace is not None:
        detail["trace"] = draft.trace
    if draft.attributes and queue.settings.archive_bodies:
        detail["attributes"] = draft.attributes
    return detail


def sent_details(drafts: Sequence[Draft], queue: Queue) -> Iterator[tuple[dict[str, Json], int]]:
    """The same of messages that are sent together without a delay, once for those that follow each other and are told
    of alike: what, and of how many."""
    types = {draft.content_type for draft in drafts}
    if len(types) == 1 and all(map(_is_plain, drafts)):
        yield _plain_detail(types.pop()), len(drafts)
        return
    for detail, alike in groupby(drafts, lambda draft: sent_detail(draft, queue, 0)):
        yield detail, len(list(alike))


def _is_plain(draft: Draft) -> bool:
    """Whether there is nothing to tell of it but its content type: that is most of what is sent."""
    return draft.group is None and draft.trace is None and not draft.attributes


@lru_cache(maxsize=256)
def _plain_detail(content_type: str) -> dict[str, Json]:
    """The same dictionary each time, so that it is quickly found to be the same."""
    return {"content_type": content_type}


def target_of(event: Event) -> tuple[str, str | None] | None:
    """The id and the name of the queue into which the event brought its message from another one."""
    if event.kind not in TRANSFER_KINDS or not event.detail or "target_id" not in event.detail:
        return None
    return event.detail["target_id"], event.detail.get("target")


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An event and its place in the journal."""

    offset: int
    event: Event


def without_body(entry: Entry) -> Entry:
    """The same entry, without the body of the message that was sent."""
    detail = entry.event.detail
    if not detail or "body" not in detail:
        return entry
    kept = {name: value for name, value in detail.items() if name != "body"}
    return Entry(entry.offset, msgspec.structs.replace(entry.event, detail=kept or None))
