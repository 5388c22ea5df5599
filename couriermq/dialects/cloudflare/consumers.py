"""Consumers, one a queue: http_pull switches pulling on, worker and notification have messages delivered."""

from collections.abc import Callable
from typing import Any

import msgspec

from couriermq.clock import mint_id
from couriermq.core.errors import AlreadyExists, QueueNotFound
from couriermq.core.model import Action, Json, Queue, QueueSettings
from couriermq.dialects.cloudflare.access import is_legacy, named_queue, queue_of
from couriermq.dialects.cloudflare.ids import is_same
from couriermq.dialects.cloudflare.limits import DEFAULT_RETRIES, NEW_QUEUE, PER_PAGE_MOST
from couriermq.dialects.cloudflare.notifications import check_webhooks, match_listeners
from couriermq.dialects.cloudflare.queues import name_of, new_queue
from couriermq.dialects.cloudflare.wire import consumers as wire
from couriermq.dialects.cloudflare.wire.envelope import ok, page
from couriermq.dialects.cloudflare.wire.fields import CONSUMER
from couriermq.dialects.cloudflare.wire.queues import check_name, cut, jurisdiction_of
from couriermq.web.call import Call, Reply

FRESH: dict[str, Any] = {field.ours: getattr(NEW_QUEUE, field.ours) for field in CONSUMER} | {
    "max_attempts": DEFAULT_RETRIES + 1,
    "keep_delivered": NEW_QUEUE.keep_delivered,
}
"""What a consumer asks of its queue unless it says otherwise."""


async def list_consumers(call: Call) -> Reply:
    queue = queue_of(call, None)
    consumer = wire.write_consumer(queue, name_of=name_of(call), legacy=is_legacy(call))
    return page(*cut([] if consumer is None else [consumer], 1, PER_PAGE_MOST))


async def get_consumer(call: Call) -> Reply:
    queue = queue_of(call, None)
    _present(call, queue)
    return _written(call, queue)


async def create_consumer(call: Call) -> Reply:
    """What the caller leaves out stays as the queue has it: another dialect may have set it."""
    queue = queue_of(call, Action.MANAGE)
    change = wire.read_consumer(call.body)

    def free(present: Queue) -> None:
        if wire.consumer_of(present) is not None:
            raise wire.second_consumer(present)

    def settings(present: QueueSettings) -> dict[str, Any]:
        fresh = {"max_attempts": DEFAULT_RETRIES + 1} if present.max_attempts is None else {}
        return fresh | change.settings

    return await _put(call, queue, change, settings, check=free, consumer_id=mint_id(call.services.clock))


async def replace_consumer(call: Call) -> Reply:
    """Replace the consumer, or create one of that id; what the caller leaves out takes its default."""
    queue = queue_of(call, Action.MANAGE)
    change = wire.read_consumer(call.body)
    change.dead_letter_queue = change.dead_letter_queue or ""
    consumer_id = call.params["consumer_id"]
    wire.check_id(consumer_id)

    def free_or_same(present: Queue) -> None:
        old = wire.consumer_of(present)
        if old is not None and not is_same(consumer_id, old.id):
            raise wire.second_consumer(present)

    return await _put(
        call, queue, change, lambda present: FRESH | change.settings, check=free_or_same, consumer_id=consumer_id
    )


async def delete_consumer(call: Call) -> Reply:
    queue = queue_of(call, Action.MANAGE)
    settings = {field.ours: getattr(NEW_QUEUE, field.ours) for field in CONSUMER}
    changed = await call.services.catalog.change_queue(
        queue,
        settings=lambda present: msgspec.structs.replace(
            present, **settings, keep_delivered=NEW_QUEUE.keep_delivered, dead_letter_queue=None
        ),
        annotations=lambda present: {key: value for key, value in present.items() if key != wire.ANNOTATION},
        check=lambda present: _present(call, present),
        principal=call.principal.id,
    )
    await match_listeners(call, changed, ())
    return ok(None)


async def _put(
    call: Call,
    queue: Queue,
    change: wire.ConsumerChange,
    settings: Callable[[QueueSettings], dict[str, Any]],
    *,
    check: Callable[[Queue], None],
    consumer_id: str,
) -> Reply:
    """Write the consumer; `check` and `settings` see the queue as it stands when it is this change's turn."""
    check(queue)  # before a dead letter queue is created for nothing
    await check_webhooks(call, queue, change.webhooks)
    target = await _dead_letter_queue(call, queue, change.dead_letter_queue)
    now = call.services.clock.now()

    def kept(present: dict[str, Json]) -> dict[str, Json]:
        old = wire.consumer_in(present)
        known_id, created_at = (old.id, old.created_at) if old else (consumer_id, now)
        consumer = wire.Consumer(id=known_id, created_at=created_at, **change.fields)
        return present | {wire.ANNOTATION: msgspec.to_builtins(consumer)}

    changed = await call.services.catalog.change_queue(
        queue,
        settings=lambda present: msgspec.structs.replace(present, **settings(present), **target),
        annotations=kept,
        check=check,
        principal=call.principal.id,
    )
    await match_listeners(call, changed, change.webhooks)
    return _written(call, changed)


async def _dead_letter_queue(call: Call, queue: Queue, name: str | None) -> dict[str, str | None]:
    """The setting that leads to the queue of that name, which is created where there is none.

    An empty name means no such queue; None, that the setting stays as it is.
    """
    if not name:
        return {} if name is None else {"dead_letter_queue": None}
    try:
        target = named_queue(call, queue.tenant, name, Action.MANAGE)
    except QueueNotFound:
        call.principal.require_all(Action.MANAGE, queue.tenant)
        target = await _created(call, queue, check_name(name))
    if target.id == queue.id:
        raise wire.dead_letters_to_itself(queue.name)
    if jurisdiction_of(target) != jurisdiction_of(queue):
        raise wire.other_jurisdiction(target.name, jurisdiction_of(target), jurisdiction_of(queue))
    return {"dead_letter_queue": target.id}


async def _created(call: Call, queue: Queue, name: str) -> Queue:
    try:
        return await new_queue(call, queue.tenant, name, {}, jurisdiction_of(queue))
    except AlreadyExists:  # another call has just created it
        return named_queue(call, queue.tenant, name, Action.MANAGE)


def _present(call: Call, queue: Queue) -> None:
    consumer, consumer_id = wire.consumer_of(queue), call.params["consumer_id"]
    if consumer is None or not is_same(consumer_id, consumer.id):
        raise wire.no_consumer(consumer_id)


def _written(call: Call, queue: Queue) -> Reply:
    return ok(wire.write_consumer(queue, name_of=name_of(call), legacy=is_legacy(call)))
