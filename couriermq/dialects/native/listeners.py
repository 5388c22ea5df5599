"""Listeners: create, change, pause, replay, and see what was delivered."""

from typing import Any
from urllib.parse import quote

from msgspec import UNSET

from couriermq.core.errors import (
    AlreadyExists,
    BatchTooLarge,
    Invalid,
    ListenerNotFound,
    QueueNotFound,
    QuotaExceeded,
    TenantNotFound,
)
from couriermq.core.model import Action, Listener, ListenerSettings, Queue
from couriermq.dialects.native.access import READ_CONTENT, names_of_queues, part_of_tenant, queue_for, visible
from couriermq.dialects.native.operations import LOCATION, QUEUE, TENANT, Operation, created, gone, ok
from couriermq.dialects.native.wire import listeners as wire
from couriermq.dialects.native.wire import messages
from couriermq.dialects.native.wire.annotations import check_annotations
from couriermq.dialects.native.wire.paging import PageQuery, page_of
from couriermq.dialects.native.wire.reading import read, read_optional, read_query
from couriermq.web.call import Call, Reply


async def list_listeners(call: Call) -> Reply:
    queue = queue_for(call, *READ_CONTENT)
    return await _page(call, call.services.catalog.listeners_of(queue))


async def list_tenant_listeners(call: Call) -> Reply:
    tenant, catalog = part_of_tenant(call, *READ_CONTENT), call.services.catalog
    seen = {queue.id for queue in visible(call.principal, catalog.queues(tenant.id), *READ_CONTENT)}
    return await _page(call, [listener for listener in catalog.listeners(tenant.id) if listener.queue_id in seen])


async def _page(call: Call, listeners: list[Listener]) -> Reply:
    query = read_query(call, PageQuery)
    page, following = page_of(sorted(listeners, key=_place), query, key=_place)
    return ok(wire.Listeners([await _write(call, listener) for listener in page], following), secret=True)


def _place(listener: Listener) -> str:
    """Oldest first; an id makes it unique."""
    return f"{listener.created_at:015d}-{listener.id}"


async def create_listener(call: Call) -> Reply:
    queue, deliveries = queue_for(call, Action.MANAGE), call.services.deliveries
    new = read(wire.NEW_LISTENER, call.body)
    deliveries.check_name(new.name)
    settings = _settings(call, queue.tenant, new.settings, ListenerSettings())
    await _check_urls(call, queue.tenant, new.url, new.liveness_url, settings)
    if new.secret is None:
        secret = deliveries.new_secret(asymmetric=new.signing == "ed25519")
    else:
        secret = deliveries.given_secret(new.secret)
    listener = await call.services.catalog.create_listener(
        queue,
        new.name,
        new.url,
        settings=settings,
        liveness_url=new.liveness_url,
        secrets=(secret,),
        annotations=check_annotations(new.annotations),
        principal=call.principal.id,
    )
    written = await _write(call, listener, reveal=True)
    return created(written, call.path, quote(listener.id, safe=""), secret=True)


async def read_listener(call: Call) -> Reply:
    reveal = read_query(call, wire.RevealQuery).reveal
    listener = _listener_for(call, *((Action.MANAGE,) if reveal else READ_CONTENT))
    if reveal:
        await call.services.audit.secret_read(call, listener)
    return ok(await _write(call, listener, reveal=reveal), secret=True)


async def change_listener(call: Call) -> Reply:
    listener = _listener_for(call, Action.MANAGE)
    order = read(wire.LISTENER_CHANGE, call.body)
    changes = wire.changes_of(order)
    if "name" in changes:
        call.services.deliveries.check_name(changes["name"])
    check_annotations(changes.get("annotations", {}))
    some, tenant = order.settings, listener.tenant
    settings = None if some is UNSET else _settings(call, tenant, some, listener.settings)
    await _check_urls(call, tenant, changes.get("url"), changes.get("liveness_url"), settings)

    def change(present: Listener) -> dict[str, Any]:
        return changes if some is UNSET else {**changes, "settings": _settings(call, tenant, some, present.settings)}

    listener = await call.services.catalog.change_listener(listener, change, principal=call.principal.id)
    return ok(await _write(call, listener), secret=True)


async def delete_listener(call: Call) -> Reply:
    listener = _listener_for(call, Action.MANAGE)
    await call.services.catalog.delete_listener(listener, principal=call.principal.id)
    return gone()


async def pause_listener(call: Call) -> Reply:
    listener = _listener_for(call, Action.MANAGE)
    listener = await call.services.deliveries.pause(listener, principal=call.principal.id)
    return ok(await _write(call, listener), secret=True)


async def resume_listener(call: Call) -> Reply:
    listener = _listener_for(call, Action.MANAGE)
    listener = await call.services.deliveries.resume(listener, principal=call.principal.id)
    return ok(await _write(call, listener), secret=True)


async def rotate_listener_secret(call: Call) -> Reply:
    listener, deliveries = _listener_for(call, Action.MANAGE), call.services.deliveries
    order = read_optional(wire.ROTATE, call.body)
    secret = None if order.secret is None else deliveries.given_secret(order.secret)
    listener = await deliveries.rotate_secret(
        listener, secret=secret, overlap_ms=order.overlap_ms, principal=call.principal.id
    )
    return ok(await _write(call, listener, reveal=True), secret=True)


async def replay_deliveries(call: Call) -> Reply:
    listener = _listener_for(call, Action.MANAGE)
    order = read(wire.REPLAY, call.body)
    replayed = await call.services.deliveries.replay(
        listener,
        message_ids=order.message_ids,
        since=order.since,
        until=order.until,
        missed=order.missed,
        principal=call.principal.id,
    )
    return ok(replayed)


async def list_deliveries(call: Call) -> Reply:
    listener = _listener_for(call, *READ_CONTENT)
    query = read_query(call, wire.LogQuery)
    before = call.numbers.true_cursor(query.before, field="before")
    page = await call.services.deliveries.log_page(listener, limit=query.limit, before=before)
    return ok(wire.write_log(page, call.numbers))


async def browse_dead_letters(call: Call) -> Reply:
    listener = _listener_for(call, Action.BROWSE)
    query = read_query(call, PageQuery)
    dead = call.services.catalog.dead_letters(listener)
    after = call.numbers.true_cursor(query.after or None, field="after")
    page = await call.services.broker.browse(dead, limit=query.limit, after=after)
    return ok(messages.write_page(page, names_of_queues(call), call.numbers))


def _listener_for(call: Call, *actions: Action) -> Listener:
    return call.services.catalog.listener(queue_for(call, *actions), call.params["listener"])


async def _check_urls(
    call: Call, tenant: str, url: str | None, liveness_url: str | None, settings: ListenerSettings | None
) -> None:
    authorization = (settings.authorization if settings is not None else None) or {}
    urls = {"url": url, "liveness_url": liveness_url}
    await call.services.deliveries.check_urls(urls, tenant=tenant)
    try:
        token_url = {"authorization.token_url": authorization.get("token_url")}
        await call.services.deliveries.check_urls(token_url, tenant=tenant)
    except Invalid as error:
        raise wire.in_settings(error) from None


def _settings(call: Call, tenant: str, some: wire.SomeListenerSettings, base: ListenerSettings) -> ListenerSettings:
    settings = wire.settings_of(some, base)
    try:
        call.services.deliveries.check_settings(settings, tenant=tenant)
    except Invalid as error:
        raise wire.in_settings(error) from None
    return settings


async def _write(call: Call, listener: Listener, *, reveal: bool = False) -> wire.Listener:
    """The listener; its secrets only where they were just made, or where a manager has asked to reveal them."""
    catalog, broker = call.services.catalog, call.services.broker
    queue = catalog.queue_by_id(listener.tenant, listener.queue_id)
    return wire.write_listener(
        listener,
        queue=queue.name,
        outbox=await broker.counters(catalog.outbox(listener)),
        dead_letters=await broker.counters(catalog.dead_letters(listener)),
        health=call.services.deliveries.health(listener),  # last, so that it tells of whatever was counted
        managed=_manages(call, queue),
        reveal=reveal,
    )


def _manages(call: Call, queue: Queue) -> bool:
    return call.principal.is_root or call.principal.may(Action.MANAGE, queue)


LISTENERS = QUEUE + "/listeners"
LISTENER = LISTENERS + "/{listener}"
NOT_FOUND = (QueueNotFound, ListenerNotFound)
EXAMPLE = {"name": "shop", "url": "https://shop.example/hooks/orders"}

OPERATIONS = (
    Operation(
        method="GET",
        path=LISTENERS,
        handler=list_listeners,
        tag="Listeners",
        summary="List a queue's listeners",
        description="Oldest first, without their secrets.",
        needs="manage or browse",
        query=PageQuery,
        gives={200: wire.Listeners},
        fails=(QueueNotFound,),
    ),
    Operation(
        method="POST",
        path=LISTENERS,
        handler=create_listener,
        tag="Listeners",
        summary="Create a listener",
        description="Every message that is sent to the queue from now on is delivered to its URL by POST. A URL at an"
        " address that is not public is refused unless the server's `delivery_allow` has its network.",
        needs="manage",
        takes=wire.NewListener,
        example=EXAMPLE,
        gives={201: wire.Listener},
        answer_headers=LOCATION,
        fails=(QueueNotFound, AlreadyExists, QuotaExceeded),
    ),
    Operation(
        method="GET",
        path=TENANT + "/listeners",
        handler=list_tenant_listeners,
        tag="Listeners",
        summary="List the listeners of every queue",
        needs="manage or browse",
        query=PageQuery,
        gives={200: wire.Listeners},
        fails=(TenantNotFound,),
    ),
    Operation(
        method="GET",
        path=LISTENER,
        handler=read_listener,
        tag="Listeners",
        summary="Read a listener, its health and its figures",
        description="With `reveal=true`, which needs manage, the signing secrets too.",
        needs="manage or browse",
        query=wire.RevealQuery,
        gives={200: wire.Listener},
        fails=NOT_FOUND,
    ),
    Operation(
        method="PATCH",
        path=LISTENER,
        handler=change_listener,
        tag="Listeners",
        summary="Change a listener",
        description="What is left out stays as it is; null clears `liveness_url`, `requests_per_second` and"
        " `authorization`.",
        needs="manage",
        takes=wire.ListenerChange,
        example={"settings": {"concurrency": 4}},
        gives={200: wire.Listener},
        fails=(*NOT_FOUND, AlreadyExists),
    ),
    Operation(
        method="DELETE",
        path=LISTENER,
        handler=delete_listener,
        tag="Listeners",
        summary="Delete a listener and all that waits for it",
        needs="manage",
        gives={204: None},
        fails=NOT_FOUND,
    ),
    Operation(
        method="POST",
        path=LISTENER + "/pause",
        handler=pause_listener,
        tag="Listeners",
        summary="Stop delivering; messages wait",
        needs="manage",
        gives={200: wire.Listener},
        fails=NOT_FOUND,
    ),
    Operation(
        method="POST",
        path=LISTENER + "/resume",
        handler=resume_listener,
        tag="Listeners",
        summary="Deliver again what has waited",
        description="Also for a listener that Courier has disabled.",
        needs="manage",
        gives={200: wire.Listener},
        fails=NOT_FOUND,
    ),
    Operation(
        method="POST",
        path=LISTENER + "/rotate-secret",
        handler=rotate_listener_secret,
        tag="Listeners",
        summary="Sign with a new secret",
        description="For `overlap_ms` every delivery carries the signatures of the old secrets too.",
        needs="manage",
        takes=wire.RotateOrder,
        body_optional=True,
        example={"overlap_ms": 86_400_000},
        gives={200: wire.Listener},
        fails=NOT_FOUND,
    ),
    Operation(
        method="POST",
        path=LISTENER + "/replay",
        handler=replay_deliveries,
        tag="Listeners",
        summary="Deliver messages again",
        description="Missed ones come back from the dead letters, delivered ones from the queue or the journal.",
        needs="manage",
        takes=wire.ReplayOrder,
        example={"missed": True},
        gives={200: wire.Replayed},
        fails=(*NOT_FOUND, BatchTooLarge),
    ),
    Operation(
        method="GET",
        path=LISTENER + "/deliveries",
        handler=list_deliveries,
        tag="Listeners",
        summary="Read the delivery log",
        needs="manage or browse",
        query=wire.LogQuery,
        gives={200: wire.Deliveries},
        fails=NOT_FOUND,
    ),
    Operation(
        method="GET",
        path=LISTENER + "/dead-letters",
        handler=browse_dead_letters,
        tag="Listeners",
        summary="Browse the messages whose delivery was given up",
        needs="browse",
        query=PageQuery,
        gives={200: messages.Messages},
        fails=NOT_FOUND,
    ),
)
