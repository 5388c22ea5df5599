"""Cross-region failover as Anypoint configures it: a second queue, `<name>_fb`, that connectors turn to.

A server has one place for all regions, so the second queue protects nobody; it is there for programs that use it.
"""

from contextlib import suppress

from couriermq.core.errors import AlreadyExists, Invalid, QueueNotFound
from couriermq.core.model import Json, Kind, Queue
from couriermq.dialects.anypoint import regions, rights
from couriermq.dialects.anypoint.asking import read_object, reply
from couriermq.web.call import Call, Reply
from couriermq.web.errors import MalformedRequest

SUFFIX = "_fb"
LINK = "anypoint.fallback"
"""On a queue: its fallback queue's name and region, and whether failover is on."""
MARK = "anypoint.fallback_of"
"""On a fallback queue: the name of the queue that it stands in for, and whether failover is on."""


def is_closed(queue: Queue) -> bool:
    """Whether the queue was a fallback and is one no more: it gives out what it has and takes nothing."""
    return _fact(queue.annotations, MARK).get("enabled") is False


def write(queue: Queue) -> dict[str, Json]:
    """What a queue's JSON says about failover."""
    link = _fact(queue.annotations, LINK)
    fields: dict[str, Json] = {"isFallback": bool(_fact(queue.annotations, MARK))}
    if link:
        fields["fallbackConfig"] = {
            "enabled": bool(link.get("enabled")),
            "linkedQueueName": str(link.get("name", "")),
            "linkedQueueRegion": str(link.get("region", "")),
        }
    return fields


async def put_fallback(call: Call) -> Reply:
    queue = rights.queue(call, rights.ADMINISTER)
    enabled = read_object(call).get("fallbackEnabled")
    if not isinstance(enabled, bool):
        raise MalformedRequest("fallbackEnabled is required: true or false")
    if queue.kind is Kind.FIFO or _fact(queue.annotations, MARK):
        raise Invalid("failover is for standard queues that are not themselves a fallback")
    if enabled:
        await _open_fallback(call, queue)
    else:
        _fallback_queue(call, queue)
    link = {"enabled": enabled, "name": queue.name + SUFFIX, "region": regions.fallback_of(call, call.params["region"])}
    queue = await call.services.catalog.change_queue(
        queue, annotations=lambda present: {**present, LINK: link}, principal=call.principal.id
    )
    await _mark_fallback(call, queue)
    return reply({"queueId": queue.name, **write(queue)}, status=201)


def _fallback_queue(call: Call, queue: Queue) -> Queue | None:
    """The fallback queue, if there is one, for those who may administer it; raises Invalid where it is another's."""
    name = queue.name + SUFFIX
    try:
        found = rights.named(call, name, call.services.catalog.queue, rights.ADMINISTER)
    except QueueNotFound:
        return None
    _check_fallback(found, queue)
    return found


def _check_fallback(fallback: Queue, queue: Queue) -> None:
    if _fact(fallback.annotations, MARK).get("name", queue.name) != queue.name or fallback.kind is Kind.FIFO:
        raise Invalid(f"the queue {fallback.name!r} is there already for something else")


async def _open_fallback(call: Call, queue: Queue) -> None:
    """Create the fallback queue where there is none."""
    if _fallback_queue(call, queue) is not None:
        return
    rights.require_all(call, queue.tenant, rights.ADMINISTER)
    mark = {MARK: {"name": queue.name, "enabled": True}}
    with suppress(AlreadyExists):  # another call has just created it
        await call.services.catalog.create_queue(
            queue.tenant,
            queue.name + SUFFIX,
            settings=queue.settings,
            annotations=mark,
            principal=call.principal.id,
        )


async def _mark_fallback(call: Call, queue: Queue) -> None:
    """Open the fallback queue, or close it with what it holds: as the queue's link says when it is this change's turn,
    so that of two calls the same one decides both."""
    catalog = call.services.catalog
    fallback = _fallback_queue(call, queue)
    if fallback is None:
        return

    def marked(present: dict[str, Json]) -> dict[str, Json]:
        link = _fact(catalog.queue_by_id(queue.tenant, queue.id).annotations, LINK)
        return {**present, MARK: {"name": queue.name, "enabled": bool(link.get("enabled"))}}

    await catalog.change_queue(
        fallback, annotations=marked, check=lambda present: _check_fallback(present, queue), principal=call.principal.id
    )


def _fact(annotations: dict[str, Json], key: str) -> dict[str, Json]:
    """What this dialect has noted under a key; annotations are anybody's to change, so it may be anything."""
    noted = annotations.get(key)
    return noted if isinstance(noted, dict) else {}
