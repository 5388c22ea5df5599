"""Messages that were deleted after every listener had got them.

Such a message is no longer in its queue: only the journal of the last day still shows it, and the journal never
changes. So a record says that it is not to be shown, for as long as it could be.
"""

from contextlib import suppress

from couriermq.core.errors import NotFound, RecordNotFound
from couriermq.core.model import DAY, Queue
from couriermq.dialects.discue.history import KEPT_COUNT
from couriermq.web.call import Call

RECORD = "discue.deleted"
FORGOTTEN_COUNT = 100
"""How many old records one call deletes at most."""


def is_deleted(call: Call, queue: Queue, message_id: str, *, delivered_at: int) -> bool:
    """Whether it was deleted; an id may have been used again since, for a message that was delivered later."""
    try:
        record = call.services.catalog.record(RECORD, queue.tenant, _record_id(queue, message_id))
    except NotFound:
        return False
    return record.changed_at >= delivered_at


async def remember(call: Call, queue: Queue, message_id: str) -> None:
    catalog = call.services.catalog
    await _forget_old(call, queue.tenant)
    await catalog.put_record(
        RECORD, queue.tenant, {}, record_id=_record_id(queue, message_id), principal=call.principal.id
    )


async def _forget_old(call: Call, tenant: str) -> None:
    """Records of messages that cannot be read any more, whether deleted or not: after a day, and of all but the newest
    messages of a tenant."""
    catalog, before = call.services.catalog, call.services.clock.now() - DAY
    records = catalog.records(RECORD, tenant)
    excess = max(0, len(records) - KEPT_COUNT + 1)
    for index, record in enumerate(records[:FORGOTTEN_COUNT]):
        if index < excess or record.changed_at < before:
            with suppress(RecordNotFound):  # another call has forgotten it
                await catalog.delete_record(RECORD, tenant, record.id, principal=call.principal.id)


def _record_id(queue: Queue, message_id: str) -> str:
    return f"{queue.id}/{message_id}"
