"""Queues on the wire."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from couriermq.core.errors import Invalid
from couriermq.core.model import Queue
from couriermq.core.parsing import whole_number
from couriermq.dialects.cloudflare import limits
from couriermq.dialects.cloudflare.errors import Code, Refused
from couriermq.dialects.cloudflare.ids import queue_id
from couriermq.dialects.cloudflare.wire.consumers import ConsumerObject, write_consumer
from couriermq.dialects.cloudflare.wire.envelope import PageInfo
from couriermq.dialects.cloudflare.wire.fields import QUEUE, read_fields, write_fields
from couriermq.dialects.cloudflare.wire.reading import instant, read, shown

JURISDICTION = "cloudflare.jurisdiction"
"""The annotation that keeps where the caller wanted its queue."""


class QueueOrder(msgspec.Struct):
    queue_name: Any = None
    settings: dict[str, Any] | None = None
    jurisdiction: Literal["eu", "us", "fedramp"] | None = None


class PurgeOrder(msgspec.Struct):
    delete_messages_permanently: Any = None


_queue = msgspec.json.Decoder(QueueOrder)
_purge = msgspec.json.Decoder(PurgeOrder)


class QueueChange(msgspec.Struct):
    """What a caller wants of a queue, in our words; None is what it did not say."""

    name: str | None
    settings: dict[str, Any]
    jurisdiction: str | None


def read_queue(body: bytes) -> QueueChange:
    order = read(_queue, body, invalid=Code.QUEUE_SETTINGS_INVALID, malformed=Code.BODY_INVALID)
    if order.queue_name is not None and not isinstance(order.queue_name, str):
        raise _name_refused(order.queue_name)
    settings = read_fields(QUEUE, order.settings or {}, code=Code.QUEUE_SETTINGS_INVALID)
    return QueueChange(order.queue_name, settings, order.jurisdiction)


def check_name(name: str | None) -> str:
    """A name that the vendor would take; queues of other dialects may have others."""
    if name is None or not limits.QUEUE_NAME.fullmatch(name):
        raise _name_refused(name or "")
    return name


def _name_refused(name: object) -> Refused:
    text = name if isinstance(name, str) else shown(name)
    return Refused(
        Code.QUEUE_NAME_INVALID,
        f"Queue name '{text[:80]}' is invalid: it must have 1 to 63 lower-case letters, digits and hyphens, "
        "and start and end with a letter or a digit",
        pointer="/queue_name",
    )


def check_jurisdiction(wanted: str | None, queue: Queue) -> None:
    if wanted is not None and wanted != jurisdiction_of(queue):
        raise Refused(
            Code.QUEUE_SETTINGS_INVALID,
            "the jurisdiction of a queue is chosen when it is created and cannot be changed",
            pointer="/jurisdiction",
        )


def jurisdiction_of(queue: Queue) -> str | None:
    kept = queue.annotations.get(JURISDICTION)
    return kept if isinstance(kept, str) else None


def read_purge(body: bytes) -> None:
    order = read(_purge, body, invalid=Code.BODY_INVALID, malformed=Code.BODY_INVALID)
    if order.delete_messages_permanently is not True:
        raise Refused(
            Code.BODY_INVALID,
            "delete_messages_permanently must be true: a purge cannot be undone",
            pointer="/delete_messages_permanently",
        )


class QueueObject(msgspec.Struct, kw_only=True):
    queue_id: str
    queue_name: str
    created_on: str
    modified_on: str
    jurisdiction: str | msgspec.UnsetType = msgspec.UNSET
    producers: list[Any] = []
    producers_total_count: int = 0
    consumers: list[ConsumerObject]
    consumers_total_count: int
    settings: dict[str, object]


def write_queue(queue: Queue, *, name_of: Callable[[str], str], legacy: bool = False) -> QueueObject:
    consumer = write_consumer(queue, name_of=name_of, legacy=legacy)
    consumers = [] if consumer is None else [consumer]
    return QueueObject(
        queue_id=queue_id(queue),
        queue_name=queue.name,
        created_on=instant(queue.created_at),
        modified_on=instant(queue.changed_at),
        jurisdiction=jurisdiction_of(queue) or msgspec.UNSET,
        consumers=consumers,
        consumers_total_count=len(consumers),
        settings=write_fields(QUEUE, queue.settings),
    )


def read_page(page: str | None, per_page: str | None, *, default: int | None) -> tuple[int, int | None]:
    """(page, per_page) of a list; without `default` and `per_page` one page holds everything."""
    return (
        1 if page is None else _positive("page", page),
        default if per_page is None else min(_positive("per_page", per_page), limits.PER_PAGE_MOST),
    )


def _positive(name: str, text: str) -> int:
    number = whole_number(text)
    if number is None or not 0 < number < 10**9:
        raise Invalid(f"{name} is {text[:20]!r}; choose a whole number from 1 on", field=name)
    return number


def cut(items: Sequence[Any], page: int, per_page: int | None) -> tuple[Sequence[Any], PageInfo]:
    """One page of a list; past the end it is empty, which is how the SDKs know that they have everything."""
    total = len(items)
    size = per_page or max(total, limits.PER_PAGE_MOST)
    shown_items = items[(page - 1) * size : page * size]
    return shown_items, PageInfo(page, size, len(shown_items), total, -(-total // size))
