"""Consumers on the wire. Courier keeps one as an annotation of its queue: the settings that change what the queue does
live in the queue's own settings, where every dialect sees them; the annotation holds the rest."""

from collections.abc import Callable
from typing import Any

import msgspec

from couriermq.core.consumers import (
    ANNOTATION,
    HTTP_PULL,
    NOTIFICATION,
    SCRIPT_CHARS,
    WORKER,
    Consumer,
    consumer_in,
    consumer_of,
)
from couriermq.core.model import Queue
from couriermq.dialects.cloudflare import limits
from couriermq.dialects.cloudflare.errors import Code, Refused
from couriermq.dialects.cloudflare.ids import hex_of, queue_id
from couriermq.dialects.cloudflare.wire import notifications
from couriermq.dialects.cloudflare.wire.fields import CONSUMER, read_fields, write_fields
from couriermq.dialects.cloudflare.wire.reading import instant, pointer, read, shown, whole

__all__ = ["ANNOTATION", "HTTP_PULL", "WORKER", "Consumer", "consumer_in", "consumer_of"]


class ConsumerOrder(msgspec.Struct):
    type: Any = None
    script_name: str | None = None
    script: str | None = None
    environment_name: str | None = None
    dead_letter_queue: str | None = None
    settings: dict[str, Any] | None = None


_order = msgspec.json.Decoder(ConsumerOrder)


class ConsumerChange(msgspec.Struct):
    """What a caller wants of a consumer: the fields of the annotation, and the settings that go to the queue."""

    fields: dict[str, Any]
    settings: dict[str, Any]
    dead_letter_queue: str | None
    """A queue's name, empty for none, None where the caller did not say."""
    webhooks: tuple[str, ...] = ()
    """The URLs of a notification consumer."""


def read_consumer(body: bytes) -> ConsumerChange:
    order = read(_order, body, invalid=Code.BODY_INVALID, malformed=Code.BODY_INVALID)
    document = order.settings or {}
    if order.type == NOTIFICATION:
        urls = notifications.read_webhooks(document)
        fields = notifications.fields(urls)
        return ConsumerChange(fields, dict(notifications.QUEUE), order.dead_letter_queue, urls)
    if not isinstance(order.type, str) or order.type not in {HTTP_PULL, WORKER}:
        sentence = f"type is {shown(order.type)}; choose http_pull, worker or notification"
        raise Refused(Code.BODY_INVALID, sentence, pointer="/type")
    fields = {"type": order.type, "batch_size": _setting(document, "batch_size", 1, limits.CONSUMER_BATCH)}
    if order.type == WORKER:
        fields |= _worker_fields(order, document)
        document = {name: value for name, value in document.items() if name != "visibility_timeout_ms"}
    settings = read_fields(CONSUMER, document, code=Code.CONSUMER_SETTINGS_INVALID)
    return ConsumerChange(fields, settings, order.dead_letter_queue)


_document = msgspec.json.Decoder(dict[str, Any])


def present_form(body: bytes, *, script: str | None = None) -> bytes:
    """A consumer of the API's first form, in which it was always a Worker and its script a `service`."""
    document = read(_document, body, invalid=Code.BODY_INVALID, malformed=Code.BODY_INVALID)
    document.setdefault("type", WORKER)
    if not document.get("script_name"):
        document["script_name"] = document.get("service") or script
    if not document.get("environment_name"):
        document["environment_name"] = document.get("environment")
    return msgspec.json.encode(document)


def _worker_fields(order: ConsumerOrder, document: dict[str, Any]) -> dict[str, Any]:
    script = order.script_name or order.script
    if not script:
        raise Refused(Code.BODY_INVALID, "a worker consumer needs its script_name", pointer="/script_name")
    for name, value in (("script_name", script), ("environment_name", order.environment_name or "")):
        if len(value) > SCRIPT_CHARS:
            raise Refused(Code.BODY_INVALID, f"{name} has at most {SCRIPT_CHARS} characters", pointer=f"/{name}")
    return {
        "script_name": script,
        "environment_name": order.environment_name or "",
        "max_concurrency": _setting(document, "max_concurrency", 1, limits.CONSUMER_CONCURRENCY),
        "max_wait_time_ms": _setting(document, "max_wait_time_ms", 0, limits.CONSUMER_WAIT_MS),
    }


def _setting(document: dict[str, Any], name: str, low: int, high: int) -> int | None:
    if document.get(name) is None:
        return None
    return whole(document[name], name=f"settings.{name}", low=low, high=high, code=Code.CONSUMER_SETTINGS_INVALID)


def second_consumer(queue: Queue) -> Refused:
    return Refused(
        Code.CONSUMER_EXISTS,
        f"Queue '{queue.name}' already has a consumer.",
        hint="a queue has one consumer; change it with PUT, or delete it first",
    )


def dead_letters_to_itself(name: str) -> Refused:
    return Refused(
        Code.CONSUMER_SETTINGS_INVALID,
        f"dead letters of '{name}' would come back to it; choose another queue",
        pointer=pointer("dead_letter_queue"),
    )


def other_jurisdiction(name: str, theirs: str | None, ours: str | None) -> Refused:
    return Refused(
        Code.CONSUMER_SETTINGS_INVALID,
        f"the dead letter queue '{name}' has the jurisdiction {theirs or 'none'}, the queue itself {ours or 'none'}; "
        "choose a queue of the same jurisdiction",
        pointer=pointer("dead_letter_queue"),
    )


def check_id(consumer_id: str) -> None:
    """Refuse an id that is too long to be kept."""
    if len(consumer_id) > limits.CONSUMER_ID_CHARS:
        raise Refused(Code.BODY_INVALID, f"the id of a consumer has at most {limits.CONSUMER_ID_CHARS} characters")


def no_consumer(consumer_id: str) -> Refused:
    return Refused(Code.NOT_FOUND, f"the queue has no consumer '{consumer_id[:80]}'", status=404)


class ConsumerObject(msgspec.Struct, kw_only=True):
    consumer_id: str
    type: str
    queue_id: str
    queue_name: str
    created_on: str
    dead_letter_queue: str
    settings: dict[str, object]
    script_name: str | msgspec.UnsetType = msgspec.UNSET
    script: str | msgspec.UnsetType = msgspec.UNSET
    """The same under two names: the schema has one, the vendor's tools read the other."""
    service: str | msgspec.UnsetType = msgspec.UNSET
    """The same again, for clients of the API's first form alone: it would make wrangler ask for the script itself,
    which Courier does not have."""
    environment: str | msgspec.UnsetType = msgspec.UNSET


def write_consumer(queue: Queue, *, name_of: Callable[[str], str], legacy: bool = False) -> ConsumerObject | None:
    """The queue's consumer as it stands now; `name_of` turns the id of the dead letter queue into its name."""
    consumer = consumer_of(queue)
    if consumer is None:
        return None
    target = queue.settings.dead_letter_queue
    written = ConsumerObject(
        consumer_id=hex_of(consumer.id),
        type=consumer.type,
        queue_id=queue_id(queue),
        queue_name=queue.name,
        created_on=instant(consumer.created_at),
        dead_letter_queue="" if target is None else name_of(target),
        settings=_write_settings(queue, consumer),
    )
    if consumer.type == WORKER:
        written.script_name = written.script = consumer.script_name
        written.service = consumer.script_name if legacy else msgspec.UNSET
        written.environment = consumer.environment_name or msgspec.UNSET
    return written


def _write_settings(queue: Queue, consumer: Consumer) -> dict[str, object]:
    if consumer.type == NOTIFICATION:
        return notifications.write_settings(consumer)
    settings = {
        "batch_size": consumer.batch_size or limits.DEFAULT_CONSUMER_BATCH,
        **write_fields(CONSUMER, queue.settings),
    }
    if consumer.type == WORKER:
        del settings["visibility_timeout_ms"]
        settings["max_concurrency"] = consumer.max_concurrency
        wait_ms = consumer.max_wait_time_ms
        settings["max_wait_time_ms"] = limits.DEFAULT_CONSUMER_WAIT_MS if wait_ms is None else wait_ms
    return settings
