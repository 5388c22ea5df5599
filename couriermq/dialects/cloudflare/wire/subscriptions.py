"""Event subscriptions on the wire. Those of the source `queues` fire; the others are kept, since Courier runs none of
the vendor's other products."""

import re
from typing import Any

import msgspec

from couriermq.core.model import Record
from couriermq.core.parsing import NESTING, is_too_deep
from couriermq.dialects.cloudflare.errors import Code, Refused
from couriermq.dialects.cloudflare.ids import hex_of
from couriermq.dialects.cloudflare.limits import (
    SUBSCRIPTION_EVENTS,
    SUBSCRIPTION_NAME_CHARS,
    SUBSCRIPTION_SOURCE_BYTES,
    SUBSCRIPTIONS,
)
from couriermq.dialects.cloudflare.wire.reading import instant, pointer, read, shown
from couriermq.subscriptions import NAMES, RECORD, SOURCE, Subscription, subscription_of

__all__ = ["RECORD", "SOURCE", "Subscription", "subscription_of"]

QUEUE_DESTINATION = "queues.queue"
ORDERS = ("created_at", "name", "enabled", "source")
DIRECTIONS = ("asc", "desc")

_REPO = ("repo.created", "repo.deleted", "repo.forked", "repo.imported")
_IN_REPO = ("pushed", "cloned", "fetched", "token.created", "token.revoked")
_EMAIL = ("delivered", "deferred", "bounced", "failed", "rejected", "complained")
_WORKER = ("deployment.created", "deployment.deleted", "version.created", "version.deleted")

EVENTS: dict[str, tuple[str, ...]] = {
    "artifacts": _REPO,
    "artifacts.repo": _IN_REPO,
    "email.sending": tuple(f"message.{verb}" for verb in _EMAIL),
    "images": (),
    "kv": ("namespace.created", "namespace.deleted"),
    SOURCE: tuple(NAMES.values()),
    "r2": ("bucket.created", "bucket.deleted"),
    "superSlurper": (
        "job.started", "job.paused", "job.resumed", "job.completed", "job.aborted", "job.object.migrated",
    ),
    "vectorize": ("index.created", "index.deleted"),
    "workers.script": (*_WORKER, "worker.created", "worker.updated", "worker.deleted"),
    "workersAi.model": ("batch.queued", "batch.succeeded", "batch.failed"),
    "workersBuilds.worker": ("build.started", "build.failed", "build.canceled", "build.succeeded"),
    "workflows.workflow": (
        "instance.queued", "instance.started", "instance.paused", "instance.errored", "instance.terminated",
        "instance.completed",
    ),
}  # fmt: skip
"""Every source and the events it has; a source whose events the vendor does not list takes any that look like one."""

EVENT_NAME = re.compile(r"[a-z][A-Za-z_]*(?:\.[a-z][A-Za-z_]*)*", re.ASCII)


class Source(msgspec.Struct):
    type: str


class Destination(msgspec.Struct):
    queue_id: str
    type: str = QUEUE_DESTINATION


class SubscriptionOrder(msgspec.Struct):
    name: str | None = None
    enabled: bool | None = None
    source: dict[str, Any] | None = None
    destination: Destination | None = None
    events: list[str] | None = None


_order = msgspec.json.Decoder(SubscriptionOrder)


def read_new(body: bytes) -> Subscription:
    order = _read(body)
    if not order.name:
        raise _refused("a subscription needs a name", "name")
    if order.source is None:
        raise _refused("a subscription needs a source", "source")
    if order.destination is None:
        raise _refused("a subscription needs a destination", "destination")
    if not order.events:
        raise _refused("a subscription needs at least one event", "events")
    return _checked(
        Subscription(
            name=order.name,
            enabled=order.enabled is not False,
            source=order.source,
            queue_id=order.destination.queue_id,
            events=order.events,
        )
    )


def read_change(body: bytes, old: Subscription, *, now: int) -> Subscription:
    """The subscription with what the caller gave in place of what it was; a source is for life."""
    order = _read(body)
    if order.source is not None and order.source != old.source:
        raise _refused("the source of a subscription cannot be changed; create another", "source")
    if order.name == "":
        raise _refused("a subscription needs a name", "name")
    if order.events == []:
        raise _refused("a subscription needs at least one event", "events")
    return _checked(
        Subscription(
            name=order.name or old.name,
            enabled=old.enabled if order.enabled is None else order.enabled,
            source=old.source,
            queue_id=order.destination.queue_id if order.destination else old.queue_id,
            events=order.events or old.events,
            enabled_at=old.enabled_at if old.enabled or not order.enabled else now,
        )
    )


def _read(body: bytes) -> SubscriptionOrder:
    order = read(_order, body, invalid=Code.BODY_INVALID, malformed=Code.BODY_INVALID)
    if order.destination is not None and order.destination.type != QUEUE_DESTINATION:
        raise _refused(f"a destination has the type {QUEUE_DESTINATION}", "destination.type")
    return order


def _checked(subscription: Subscription) -> Subscription:
    _check_size(subscription)
    source = subscription.source.get("type")
    if not isinstance(source, str) or source not in EVENTS:
        raise _refused(f"source type is {shown(source)}; choose one of {', '.join(EVENTS)}", "source.type")
    unknown = [event for event in subscription.events if not _known(source, event)]
    if unknown:
        known = ", ".join(EVENTS[source])
        raise Refused(
            Code.NONE,
            f"Unrecognized event types: {', '.join(unknown)[:200]}",
            hint=f"{source} has {known}" if known else None,
            pointer="/events",
        )
    return subscription


def _check_size(subscription: Subscription) -> None:
    """A subscription is kept in memory and written as a whole into every list."""
    if len(subscription.name) > SUBSCRIPTION_NAME_CHARS:
        raise _refused(f"a name has at most {SUBSCRIPTION_NAME_CHARS} characters", "name")
    if len(subscription.events) > SUBSCRIPTION_EVENTS:
        raise _refused(f"a subscription has at most {SUBSCRIPTION_EVENTS} events", "events")
    if is_too_deep(subscription.source):
        raise _refused(f"source is nested too deeply; at most {NESTING} levels are allowed", "source")
    try:
        size = len(msgspec.msgpack.encode(subscription.source))
    except OverflowError:
        raise _refused("source holds a whole number that does not fit in 64 bits", "source") from None
    if size > SUBSCRIPTION_SOURCE_BYTES:
        raise _refused(f"source is {size} bytes; at most {SUBSCRIPTION_SOURCE_BYTES} are allowed", "source")


def too_many() -> Refused:
    return Refused(
        Code.BODY_INVALID,
        f"an account has at most {SUBSCRIPTIONS} event subscriptions; delete one first",
    )


def _known(source: str, event: str) -> bool:
    known = EVENTS[source]
    return event in known if known else EVENT_NAME.fullmatch(event) is not None


def _refused(sentence: str, place: str) -> Refused:
    return Refused(Code.BODY_INVALID, sentence, pointer=pointer(place))


def no_subscription(subscription_id: str) -> Refused:
    return Refused(
        Code.NONE,
        f"the account has no event subscription '{subscription_id[:80]}'",
        status=404,
        hint="list the subscriptions of the account to find the ids that it has",
    )


def read_order(order: str | None, direction: str | None) -> tuple[str, bool]:
    """(what to sort by, whether downwards)."""
    if order is not None and order not in ORDERS:
        raise _refused(f"order is {order[:40]!r}; choose one of {', '.join(ORDERS)}", "order")
    if direction is not None and direction not in DIRECTIONS:
        raise _refused(f"direction is {direction[:40]!r}; choose asc or desc", "direction")
    return order or "created_at", direction == "desc"


class SubscriptionObject(msgspec.Struct):
    id: str
    created_at: str
    modified_at: str
    name: str
    enabled: bool
    source: dict[str, Any]
    destination: Destination
    events: list[str]


def write_subscription(record: Record, *, queue_id: str) -> SubscriptionObject:
    kept = subscription_of(record)
    return SubscriptionObject(
        hex_of(record.id),
        instant(record.created_at),
        instant(record.changed_at),
        kept.name,
        kept.enabled,
        kept.source,
        Destination(queue_id),
        kept.events,
    )
