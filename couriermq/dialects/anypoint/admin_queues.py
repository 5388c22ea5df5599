"""The admin API's queues: list of destinations, create, change, purge, delete."""

from typing import Any

import msgspec

from couriermq.catalog import Catalog
from couriermq.core.errors import AlreadyExists, Invalid, QueueNotFound
from couriermq.core.model import Exchange, Json, Kind, Queue, QueueSettings
from couriermq.dialects.anypoint import admin_wire, limits, place, rights
from couriermq.dialects.anypoint.asking import (
    NOTHING,
    choice,
    names,
    number,
    read_object,
    reply,
    reply_list,
    starts_with,
)
from couriermq.web.call import Call, Reply

MANY = 2**31
PURGE_SECONDS = 30
"""How long a purge is waited for; a longer one goes on by itself."""


async def list_destinations(call: Call) -> Reply:
    tenant = place.tenant(call)
    rights.require_any(call, *rights.LOOK)
    kind = choice(call, "destinationType", ("all", "queue", "exchange"))
    minimal = choice(call, "inclusion", ("all", "minimal")) == "minimal"
    found = [one for one in _destinations(call, tenant, kind) if rights.may(call, one, *rights.LOOK)]
    return reply_list(call, [_write(one, call.services.catalog, minimal=minimal) for one in page(call, found)])


def _destinations(call: Call, tenant: str, kind: str) -> list[Queue | Exchange]:
    catalog, prefix = call.services.catalog, starts_with(call)
    found: list[Queue | Exchange] = []
    if kind != "exchange":
        found += catalog.queues(tenant, prefix=prefix)
    if kind != "queue":
        found += catalog.exchanges(tenant, prefix=prefix)
    if wanted := names(call, "destinationIds"):
        found = [one for one in found if one.name in wanted]
    return sorted(found, key=lambda one: one.name)


def page(call: Call, items: list[Any]) -> list[Any]:
    offset = number(call, "offset", 0, 0, MANY)
    return items[offset : offset + number(call, "limit", limits.LIST_COUNT, 0, MANY)]


def _write(one: Queue | Exchange, catalog: Catalog, *, minimal: bool) -> dict[str, Json]:
    fields = admin_wire.write_queue(one, catalog) if isinstance(one, Queue) else admin_wire.write_exchange(one)
    if minimal:
        return {name: fields[name] for name in ("type", "queueId", "exchangeId", "fifo") if name in fields}
    return fields


async def read_queue(call: Call) -> Reply:
    queue = rights.queue(call, *rights.LOOK)
    return _entity(call, queue)


async def put_queue(call: Call) -> Reply:
    """Create the queue; where it exists, change what the body gives and keep the rest."""
    tenant = place.tenant(call)
    queue = _find(call, tenant)
    rights.require(call, call.params["queue"], queue, rights.ADMINISTER)
    body = read_object(call)
    if queue is None:
        rights.require_all(call, tenant, rights.ADMINISTER)
        try:
            return _entity(call, await _create(call, tenant, body))
        except AlreadyExists:
            queue = _find(call, tenant)
            if queue is None:  # the name is an exchange's; else another call has just created it
                raise
    return _entity(call, await _change(call, queue, body, forget_dead_letters=False))


async def patch_queue_v1(call: Call) -> Reply:
    """Change what the body gives; dead letters that it does not mention are switched off."""
    queue = rights.queue(call, rights.ADMINISTER)
    return _entity(call, await _change(call, queue, read_object(call), forget_dead_letters=True))


async def patch_queue_v2(call: Call) -> Reply:
    """Change what the body gives and nothing else."""
    queue = rights.queue(call, rights.ADMINISTER)
    return _entity(call, await _change(call, queue, read_object(call), forget_dead_letters=False))


async def delete_queue(call: Call) -> Reply:
    queue = rights.queue(call, rights.ADMINISTER)
    await call.services.catalog.delete_queue(queue, principal=call.principal.id)
    return NOTHING


async def purge_queue(call: Call) -> Reply:
    queue = rights.queue(call, rights.ADMINISTER, rights.CLEAR)
    await call.services.purges.purge(queue, principal=call.principal.id, patience_seconds=PURGE_SECONDS)
    return NOTHING


def _entity(call: Call, queue: Queue) -> Reply:
    return reply(admin_wire.write_queue(queue, call.services.catalog))


def _find(call: Call, tenant: str) -> Queue | None:
    try:
        return call.services.catalog.queue(tenant, call.params["queue"])
    except QueueNotFound:
        return None


async def _create(call: Call, tenant: str, body: dict[str, Any]) -> Queue:
    limits.check_name(call.params["queue"], strict=place.is_strict(call))
    kind = Kind.FIFO if admin_wire.read_flag(body, "fifo") else Kind.STANDARD
    return await call.services.catalog.create_queue(
        tenant,
        call.params["queue"],
        kind=kind,
        settings=_settings(call, kind, admin_wire.NEW_QUEUE, body, forget_dead_letters=False),
        annotations=_annotations({}, body),
        principal=call.principal.id,
    )


async def _change(call: Call, queue: Queue, body: dict[str, Any], *, forget_dead_letters: bool) -> Queue:
    fifo = admin_wire.read_flag(body, "fifo")
    if fifo is not None and fifo is not (queue.kind is Kind.FIFO):
        raise Invalid("fifo is decided when a queue is created; create another queue")
    return await call.services.catalog.change_queue(
        queue,
        settings=lambda present: _settings(call, queue.kind, present, body, forget_dead_letters=forget_dead_letters),
        annotations=lambda present: _annotations(present, body),
        principal=call.principal.id,
    )


def _annotations(present: dict[str, Json], body: dict[str, Any]) -> dict[str, Json]:
    encrypted = admin_wire.read_flag(body, "encrypted")
    return present if encrypted is None else {**present, admin_wire.ENCRYPTED: encrypted}


def _settings(
    call: Call, kind: Kind, present: QueueSettings, body: dict[str, Any], *, forget_dead_letters: bool
) -> QueueSettings:
    given: dict[str, Any] = dict(admin_wire.read_settings(body, strict=place.is_strict(call)))
    target = _dead_letter_queue(call, body, kind)
    deliveries = given.pop("max_attempts", None)
    given |= _dead_letters(
        present,
        target,
        deliveries,
        named=admin_wire.DEAD_LETTERS in body,
        forget=forget_dead_letters,
        strict=place.is_strict(call),
    )
    return msgspec.structs.replace(present, **given)


def _dead_letter_queue(call: Call, body: dict[str, Any], kind: Kind) -> str | None:
    """The id of the dead letter queue that the body names: one that keeps the same order, and that the caller may
    send to or administer."""
    name = admin_wire.read_dead_letter_queue(body)
    if name is None:
        return None
    try:
        target = rights.named(call, name, call.services.catalog.queue, rights.ADMINISTER, rights.PUBLISH)
    except QueueNotFound:
        raise Invalid(f"{admin_wire.DEAD_LETTERS} names no queue: {name!r}") from None
    if target.kind is not kind:
        raise Invalid("the dead letter queue of a FIFO queue must be FIFO, that of a standard queue standard")
    return target.id


def _dead_letters(
    present: QueueSettings, target: str | None, deliveries: int | None, *, named: bool, forget: bool, strict: bool
) -> dict[str, Any]:
    """Dead letter queue and number of deliveries belong together: without a queue, messages come back for ever."""
    if target is not None:
        if deliveries is None and forget and strict:
            return {"dead_letter_queue": None, "max_attempts": None}
        kept = present.max_attempts if present.dead_letter_queue else None
        return {"dead_letter_queue": target, "max_attempts": deliveries or kept or limits.DELIVERIES_DEFAULT}
    if named or forget:
        return {"dead_letter_queue": None, "max_attempts": None}
    if deliveries is None:
        return {}
    if present.dead_letter_queue is not None:
        return {"max_attempts": deliveries}
    if strict:
        raise Invalid("maxDeliveries needs a deadLetterQueueId")
    return {}
