"""Queues and their counters on the wire. A dead letter queue is named there; inside it is an id."""

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.core import limits, model
from couriermq.core.model import Kind, LateAck, QueueSettings
from couriermq.dialects.native.wire.annotations import Annotations
from couriermq.dialects.native.wire.reading import Order

IdOf = Callable[[str], str]
NameOf = Callable[[str], str | None]

Name = Annotated[str, Meta(extra_json_schema={"pattern": f"^{limits.NAME.pattern}$"})]
Alias = Annotated[str, Meta(extra_json_schema={"pattern": f"^{limits.TENANT.pattern}$"})]
Aliases = Annotated[dict[str, Alias], Meta(max_length=limits.ALIAS_COUNT)]


def _ranged(setting: str) -> Meta:
    low, high = limits.SETTING_RANGES[setting]
    return Meta(extra_json_schema={"minimum": low, "maximum": high})


class SomeSettings(Order):
    """The settings to set; what is left out keeps its value, or its default on a new queue."""

    delay_ms: Annotated[int, _ranged("delay_ms")] | UnsetType = UNSET
    lease_ms: Annotated[int, _ranged("lease_ms")] | UnsetType = UNSET
    retention_ms: Annotated[int, _ranged("retention_ms")] | UnsetType = UNSET
    max_attempts: Annotated[int, _ranged("max_attempts")] | UnsetType | None = UNSET
    max_leased: Annotated[int, _ranged("max_leased")] | UnsetType | None = UNSET
    retry_delay_ms: Annotated[int, _ranged("retry_delay_ms")] | UnsetType = UNSET
    dead_letter_queue: str | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET
    max_body_bytes: Annotated[int, _ranged("max_body_bytes")] | UnsetType = UNSET
    late_ack: LateAck | UnsetType = UNSET
    archive_bodies: bool | UnsetType = UNSET
    keep_delivered: bool | UnsetType = UNSET


class NewQueue(Order):
    name: Name
    kind: Kind = Kind.STANDARD
    settings: SomeSettings = msgspec.field(default_factory=SomeSettings)
    annotations: Annotations = msgspec.field(default_factory=dict)
    aliases: Aliases = msgspec.field(default_factory=dict)


class QueueChange(Order):
    """What to change; what is left out stays as it is. A queue's kind is for life."""

    name: Name | UnsetType = UNSET
    settings: SomeSettings | UnsetType = UNSET
    annotations: Annotations | UnsetType = UNSET
    aliases: Aliases | UnsetType = UNSET


class Queue(msgspec.Struct):
    id: str
    name: str
    tenant: str
    kind: Kind
    settings: QueueSettings
    annotations: Annotations
    aliases: dict[str, str]
    created_at: int
    changed_at: int


class Queues(msgspec.Struct):
    """A page of queues by name. `next` goes into `after` for the page that follows; null is the end."""

    queues: list[Queue]
    next: str | None


class Counters(msgspec.Struct):
    """The exact figures of a queue at one instant."""

    ready_count: int
    delayed_count: int
    leased_count: int
    total_count: int
    byte_count: int
    oldest_at: int | None
    oldest_age_ms: int | None
    sent_count: int
    acked_count: int
    dead_count: int


class TenantCounters(msgspec.Struct):
    """The figures of every queue that the caller may see, by name."""

    queues: dict[str, Counters]


NEW_QUEUE = msgspec.json.Decoder(NewQueue)
QUEUE_CHANGE = msgspec.json.Decoder(QueueChange)


def settings_of(some: SomeSettings, base: QueueSettings, id_of: IdOf) -> QueueSettings:
    """The base with what the caller gives laid over it."""
    changes = {name: value for name in some.__struct_fields__ if (value := getattr(some, name)) is not UNSET}
    if target := changes.get("dead_letter_queue"):
        changes["dead_letter_queue"] = id_of(target)
    return msgspec.structs.replace(base, **changes)


def write_queue(queue: model.Queue, name_of: NameOf) -> Queue:
    return Queue(
        id=queue.id,
        name=queue.name,
        tenant=queue.tenant,
        kind=queue.kind,
        settings=_write_settings(queue.settings, name_of),
        annotations=queue.annotations,
        aliases=queue.aliases,
        created_at=queue.created_at,
        changed_at=queue.changed_at,
    )


def _write_settings(settings: QueueSettings, name_of: NameOf) -> QueueSettings:
    target = settings.dead_letter_queue
    return settings if target is None else msgspec.structs.replace(settings, dead_letter_queue=name_of(target))


def write_counters(counters: model.Counters, *, now: int) -> Counters:
    return Counters(
        ready_count=counters.ready_count,
        delayed_count=counters.delayed_count,
        leased_count=counters.leased_count,
        total_count=counters.total_count,
        byte_count=counters.byte_count,
        oldest_at=counters.oldest_at,
        oldest_age_ms=None if counters.oldest_at is None else max(0, now - counters.oldest_at),
        sent_count=counters.sent_count,
        acked_count=counters.acked_count,
        dead_count=counters.dead_count,
    )
