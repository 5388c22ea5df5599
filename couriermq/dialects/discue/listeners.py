"""Listeners: where a queue's messages go by themselves."""

from collections.abc import Sequence

from couriermq.core.model import Json, Listener, ListenerState
from couriermq.dialects.discue import rights
from couriermq.dialects.discue.access import known_queue, listener_for, names_of, queue_for, tenant_of
from couriermq.dialects.discue.limits import MISSED_COUNT
from couriermq.dialects.discue.paging import cut
from couriermq.dialects.discue.wire import listeners as wire
from couriermq.dialects.discue.wire.answers import answer, path_of
from couriermq.dialects.discue.wire.queues import listener_children
from couriermq.dialects.discue.wire.reading import asks_to_reveal, read_page
from couriermq.web.call import NO_STORE, Call, Reply


async def list_all_listeners(call: Call) -> Reply:
    rights.require_some(call, rights.READ_LISTENERS)
    listeners = call.services.catalog.listeners(tenant_of(call))
    return await _listed(call, [one for one in listeners if _visible(call, one)], path_of("listeners"))


async def list_listeners(call: Call) -> Reply:
    queue = known_queue(call, rights.READ_LISTENERS)
    listeners = [one for one in call.services.catalog.listeners_of(queue) if _visible(call, one)]
    if not listeners:
        rights.require(call, rights.READ_LISTENERS, *names_of(queue), asked=call.params["queue_id"])
    return await _listed(call, listeners, path_of("queues", queue.id, "listeners"))


async def create_listener(call: Call) -> Reply:
    queue = queue_for(call, rights.CHANGE_LISTENERS)
    order, deliveries = wire.read_new(call.body), call.services.deliveries
    deliveries.check_name(order.name)
    await deliveries.check_urls(order.urls(), tenant=queue.tenant)
    listener = await call.services.catalog.create_listener(
        queue,
        order.name,
        order.url,
        liveness_url=order.liveness_url,
        state=order.state,
        secrets=(deliveries.new_secret(),),
        principal=call.principal.id,
    )
    return await _written(call, listener, reveal=True)


async def get_listener(call: Call) -> Reply:
    reveal = asks_to_reveal(call)
    _, listener = listener_for(call, rights.CHANGE_LISTENERS if reveal else rights.READ_LISTENERS)
    if reveal:
        await call.services.audit.secret_read(call, listener)
    return await _written(call, listener, reveal=reveal)


async def change_listener(call: Call) -> Reply:
    queue, listener = listener_for(call, rights.CHANGE_LISTENERS)
    order, deliveries = wire.read_change(call.body), call.services.deliveries
    if order.name is not None:
        deliveries.check_name(order.name)
    await deliveries.check_urls(order.urls(), tenant=queue.tenant)
    if changes := order.changes():
        listener = await call.services.catalog.change_listener(listener, principal=call.principal.id, **changes)
    if order.state is ListenerState.ACTIVE or order.state not in {None, listener.state}:
        listener = await _set_state(call, listener, order.state)
    return await _written(call, listener)


async def _set_state(call: Call, listener: Listener, state: ListenerState | None) -> Listener:
    deliveries = call.services.deliveries
    change = deliveries.resume if state is ListenerState.ACTIVE else deliveries.pause
    return await change(listener, principal=call.principal.id)


async def replay(call: Call) -> Reply:
    """Deliver again: chosen messages, all of a span of time, or all that the listener has missed."""
    _, listener = listener_for(call, rights.CHANGE_LISTENERS)
    order = wire.read_replay(call.body)
    replayed = await call.services.deliveries.replay(
        listener,
        message_ids=order.message_ids,
        since=order.since,
        until=order.until,
        missed=order.missed,
        principal=call.principal.id,
    )
    return answer(call, {"replay": replayed}, wire.listener_path(listener) + "/replay")


async def delete_listener(call: Call) -> Reply:
    _, listener = listener_for(call, rights.CHANGE_LISTENERS)
    await call.services.catalog.delete_listener(listener, principal=call.principal.id)
    return answer(call, {}, wire.listener_path(listener))


# -- writing --------------------------------------------------------------------------------------------------


def _visible(call: Call, listener: Listener) -> bool:
    return rights.allows(call, rights.READ_LISTENERS, *_names(call, listener))


def _names(call: Call, listener: Listener) -> tuple[str, ...]:
    queue = call.services.catalog.queue_of_id(listener.queue_id)
    return (listener.id, *(names_of(queue) if queue else ()))


async def _listed(call: Call, listeners: Sequence[Listener], path: str) -> Reply:
    shown, headers = cut(call, listeners, read_page(call), path)
    written = [await write(call, listener) for listener in shown]
    return answer(call, {"listeners": written}, path, children=listener_children(shown), headers=headers)


async def _written(call: Call, listener: Listener, *, reveal: bool = False) -> Reply:
    document = {"listener": await write(call, listener, reveal=reveal)}
    return answer(call, document, wire.listener_path(listener), headers=(NO_STORE,) if reveal else ())


async def write(call: Call, listener: Listener, *, reveal: bool = False) -> dict[str, Json]:
    """The listener with what it has received and missed; its secret where it was just made or is revealed."""
    track = await _track(call, listener)
    health = call.services.deliveries.health(listener)  # last, so that it tells of whatever was counted
    return wire.write_listener(listener, health, track, with_secret=reveal)


async def _track(call: Call, listener: Listener) -> wire.Track:
    broker, catalog = call.services.broker, call.services.catalog
    dead_letters = catalog.dead_letters(listener)
    outbox, dead = await broker.counters(catalog.outbox(listener)), await broker.counters(dead_letters)
    missed: list[str] = []
    if dead.total_count:
        missed = [message.id for message in (await broker.browse(dead_letters, limit=MISSED_COUNT)).messages]
    return wire.Track(outbox, dead, missed)
