"""Purging a whole queue: started by one call, asked after by another."""

from couriermq.core.model import Action
from couriermq.dialects.cloudflare.access import queue_of
from couriermq.dialects.cloudflare.queues import written
from couriermq.dialects.cloudflare.wire.envelope import ok
from couriermq.dialects.cloudflare.wire.queues import read_purge
from couriermq.dialects.cloudflare.wire.reading import instant
from couriermq.web.call import Call, Reply

PATIENCE_SECONDS = 5
"""A purge that ends within this time is over when its start is answered; a longer one goes on by itself."""


async def start_purge(call: Call) -> Reply:
    queue = queue_of(call, Action.MANAGE)
    read_purge(call.body)
    await call.services.purges.purge(queue, principal=call.principal.id, patience_seconds=PATIENCE_SECONDS)
    return written(call, queue)


async def purge_status(call: Call) -> Reply:
    """Nothing at all for a queue that was never purged."""
    purge = call.services.purges.last(queue_of(call, None))
    if purge is None:
        return ok({})
    return ok({"completed": "false" if purge.ended_at is None else "true", "started_at": instant(purge.started_at)})
