"""Consumers, one a queue: http_pull switches pulling on, worker is configuration that is kept."""

from typing import Any

import msgspec

from couriermq.clock import mint_id
from couriermq.core.errors import QueueNotFound
from couriermq.core.model import Action, Queue
from couriermq.dialects.cloudflare.access import queue_of
from couriermq.dialects.cloudflare.limits import DEFAULT_RETRIES, NEW_QUEUE, PER_PAGE_MOST
from couriermq.dialects.cloudflare.queues import name_of, new_queue
from couriermq.dialects.cloudflare.wire import consumers as wire
from couriermq.dialects.cloudflare.wire.envelope import ok, page
from couriermq.dialects.cloudflare.wire.fields import CONSUMER
from couriermq.dialects.cloudflare.wire.queues import JURISDICTION, check_name, cut
from couriermq.web.call import Call, Reply

FRESH: dict[str, Any] = {field.ours: getattr(NEW_QUEUE, field.ours) for field in CONSUMER} | {
    "max_attempts": DEFAULT_RETRIES + 1
}
"""What a consumer asks of its queue unless it says otherwise."""


async def list_consumers(call: Call) -> Reply:
    queue = queue_of(call, None)
    consumer = wire.write_consumer(queue, name_of=name_of(call))
    return page(*cut([] if consumer is None else [consumer], 1, PER_PAGE_MOST))


async def get_consumer(call: Call) -> Reply:
    queue = queue_of(call, None)
    _present(call, queue)
    return _written(call, queue)


async def create_consumer(call: Call) -> Reply:
    """What the caller leaves out stays as the queue has it: another dialect may have set it."""
    queue = queue_of(call, Action.MANAGE)
    change = wire.read_consumer(call.body)
    if wire.consumer_of(queue) is not None:
        raise wire.second_consumer(queue)
    settings = dict(change.settings)
    if queue.settings.max_attempts is None:
        settings.setdefault("max_attempts", DEFAULT_RETRIES + 1)
    return await _put(call, queue, change, settings, consumer_id=mint_id(call.services.clock))


async def replace_consumer(call: Call) -> Reply:
    """Replace the consumer, or create one of that id; what the caller leaves out takes its default."""
    queue = queue_of(call, Action.MANAGE)
    change = wire.read_consumer(call.body)
    consumer_id, old = call.params["consumer_id"], wire.consumer_of(queue)
    if old is not None and old.id != consumer_id:
        raise wire.second_consumer(queue)
    change.dead_letter_queue = change.dead_letter_queue or ""
    return await _put(call, queue, change, FRESH | change.settings, consumer_id=consumer_id)


async def delete_consumer(call: Call) -> Reply:
    queue = queue_of(call, Action.MANAGE)
    _present(call, queue)
    settings = {field.ours: getattr(NEW_QUEUE, field.ours) for field in CONSUMER}
    await call.services.catalog.change_queue(
        queue,
        settings=lambda present: msgspec.structs.replace(present, **settings, dead_letter_queue=None),
        annotations=lambda present: {key: value for key, value in present.items() if key != wire.ANNOTATION},
        principal=call.principal.id,
    )
    return ok(None)


async def _put(
    call: Call, queue: Queue, change: wire.ConsumerChange, settings: dict[str, Any], *, consumer_id: str
) -> Reply:
    old = wire.consumer_of(queue)
    consumer = wire.Consumer(
        id=consumer_id, created_at=old.created_at if old else call.services.clock.now(), **change.fields
    )
    if change.dead_letter_queue is not None:
        settings["dead_letter_queue"] = await _dead_letter_queue(call, queue, change.dead_letter_queue)
    changed = await call.services.catalog.change_queue(
        queue,
        settings=lambda present: msgspec.structs.replace(present, **settings),
        annotations=lambda present: present | {wire.ANNOTATION: msgspec.to_builtins(consumer)},
        principal=call.principal.id,
    )
    return _written(call, changed)


async def _dead_letter_queue(call: Call, queue: Queue, name: str) -> str | None:
    """The id of the queue of that name, which is created where there is none; an empty name means no such queue."""
    if not name:
        return None
    try:
        target = call.services.catalog.queue(queue.tenant, name)
    except QueueNotFound:
        call.principal.require_all(Action.MANAGE, queue.tenant)
        target = await new_queue(call, queue.tenant, check_name(name), {}, queue.annotations.get(JURISDICTION))
    if target.id == queue.id:
        raise wire.dead_letters_to_itself(queue.name)
    call.principal.require(Action.MANAGE, target)
    return target.id


def _present(call: Call, queue: Queue) -> None:
    consumer, consumer_id = wire.consumer_of(queue), call.params["consumer_id"]
    if consumer is None or consumer.id != consumer_id:
        raise wire.no_consumer(consumer_id)


def _written(call: Call, queue: Queue) -> Reply:
    return ok(wire.write_consumer(queue, name_of=name_of(call)))
