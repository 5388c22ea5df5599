"""Cross-region failover as Anypoint configures it: a second queue, `<name>_fb`, that connectors turn to.

A server has one place for all regions, so the second queue protects nobody; it is there for programs that use it.
"""

from couriermq.core.errors import Invalid, QueueNotFound
from couriermq.core.model import Json, Kind, Queue
from couriermq.dialects.anypoint import place, regions, rights
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
    mark = queue.annotations.get(MARK)
    return mark is not None and not mark["enabled"]


def write(queue: Queue) -> dict[str, Json]:
    """What a queue's JSON says about failover."""
    link = queue.annotations.get(LINK)
    fields: dict[str, Json] = {"isFallback": MARK in queue.annotations}
    if link is not None:
        fields["fallbackConfig"] = {
            "enabled": link["enabled"],
            "linkedQueueName": link["name"],
            "linkedQueueRegion": link["region"],
        }
    return fields


async def put_fallback(call: Call) -> Reply:
    queue = place.queue(call)
    rights.require(call, queue, rights.ADMINISTER)
    enabled = read_object(call).get("fallbackEnabled")
    if not isinstance(enabled, bool):
        raise MalformedRequest("fallbackEnabled is required: true or false")
    if queue.kind is Kind.FIFO or MARK in queue.annotations:
        raise Invalid("failover is for standard queues that are not themselves a fallback")
    await _switch_fallback(call, queue, enabled=enabled)
    link = {"enabled": enabled, "name": queue.name + SUFFIX, "region": regions.fallback_of(call, call.params["region"])}
    queue = await call.services.catalog.change_queue(
        queue, annotations=lambda present: {**present, LINK: link}, principal=call.principal.id
    )
    return reply({"queueId": queue.name, **write(queue)}, status=201)


async def _switch_fallback(call: Call, queue: Queue, *, enabled: bool) -> None:
    """Open the fallback queue, making it where needed, or close it with what it holds."""
    catalog, principal = call.services.catalog, call.principal.id
    mark = {MARK: {"name": queue.name, "enabled": enabled}}
    try:
        found = catalog.queue(queue.tenant, queue.name + SUFFIX)
    except QueueNotFound:
        if enabled:
            await catalog.create_queue(
                queue.tenant, queue.name + SUFFIX, settings=queue.settings, annotations=mark, principal=principal
            )
        return
    if found.annotations.get(MARK, {}).get("name", queue.name) != queue.name or found.kind is Kind.FIFO:
        raise Invalid(f"the queue {found.name!r} is there already for something else")
    await catalog.change_queue(found, annotations=lambda present: {**present, **mark}, principal=principal)
