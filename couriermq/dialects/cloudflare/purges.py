"""Purging a whole queue: started by one call, asked after by another."""

import asyncio

from couriermq.core.errors import RecordNotFound
from couriermq.core.model import Action, Queue
from couriermq.dialects.cloudflare.access import queue_of
from couriermq.dialects.cloudflare.queues import written
from couriermq.dialects.cloudflare.wire.envelope import ok
from couriermq.dialects.cloudflare.wire.queues import PURGE_RECORD, read_purge
from couriermq.dialects.cloudflare.wire.reading import instant
from couriermq.web.call import Call, Reply

PATIENCE_SECONDS = 5
"""A purge that ends within this time is over when its start is answered; a longer one goes on by itself."""


class Purges:
    """The purges under way, and what is known of the last one of each queue."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    async def start(self, call: Call) -> Reply:
        queue = queue_of(call, Action.MANAGE)
        read_purge(call.body)
        await _note(call, queue, started_at := call.services.clock.now(), completed=False)
        task = asyncio.create_task(_purge(call, queue, started_at))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        done, _ = await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
        for ended in done:
            ended.result()  # what went wrong is the caller's to hear
        return written(call, queue)

    async def status(self, call: Call) -> Reply:
        """Nothing at all for a queue that was never purged."""
        queue = queue_of(call, None)
        try:
            document = call.services.catalog.record(PURGE_RECORD, queue.tenant, queue.id).document
        except RecordNotFound:
            return ok({})
        return ok(
            {
                "completed": "true" if document["completed"] else "false",
                "started_at": instant(document["started_at"]),
            }
        )


async def _purge(call: Call, queue: Queue, started_at: int) -> None:
    await call.services.broker.purge(queue, principal=call.principal.id)
    await _note(call, queue, started_at, completed=True)


async def _note(call: Call, queue: Queue, started_at: int, *, completed: bool) -> None:
    await call.services.catalog.put_record(
        PURGE_RECORD,
        queue.tenant,
        {"started_at": started_at, "completed": completed},
        record_id=queue.id,
        principal=call.principal.id,
    )
