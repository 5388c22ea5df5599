"""Worker consumers: queues whose messages go in batches to the `queue()` handler of a Worker.

To delivery, such a consumer is a listener whose outbox is the queue itself. So its messages have the leases, attempts,
delays and dead letters of the queue, and whoever receives from the queue through another dialect shares them.
"""

import logging

from couriermq.catalog import Catalog
from couriermq.catalog.vault import CannotUnseal
from couriermq.core.consumers import DEFAULT_BATCH, DEFAULT_WAIT_MS, WORKER, Consumer, Worker, consumer_of
from couriermq.core.errors import WorkerNotFound
from couriermq.core.model import MINUTE, Listener, ListenerSettings, Queue

log = logging.getLogger(__name__)

HANDLER_MS = 15 * MINUTE
"""How long a handler may take for a batch; the vendor's limit."""
AUTO_CONCURRENCY = 20
"""How many invocations run at a time where the consumer leaves it open: enough to keep a local runtime busy."""


class WorkerConsumer(Listener, frozen=True, kw_only=True):
    """A consumer with the address of the bridge that runs its script."""

    script: str
    batch_size: int
    max_wait_ms: int


def served_consumer(catalog: Catalog, queue: Queue) -> WorkerConsumer | None:
    """The queue's worker consumer, if its script is attached to a bridge."""
    consumer = consumer_of(queue)
    if consumer is None or consumer.type != WORKER:
        return None
    try:
        worker = catalog.worker(queue.tenant, consumer.script_name)
    except WorkerNotFound:
        return None
    except CannotUnseal as error:  # another node has encrypted it with a key that this one does not have
        log.error("%s", error)
        return None
    return _consumer(queue, consumer, worker)


def _consumer(queue: Queue, consumer: Consumer, worker: Worker) -> WorkerConsumer:
    wait_ms = consumer.max_wait_time_ms
    return WorkerConsumer(
        id=consumer.id,
        tenant=queue.tenant,
        queue_id=queue.id,
        name=worker.script,
        url=worker.url,
        outbox_id=queue.id,
        dead_letters_id=queue.settings.dead_letter_queue or "",
        secrets=worker.secrets,
        settings=ListenerSettings(
            timeout_ms=HANDLER_MS, concurrency=consumer.max_concurrency or AUTO_CONCURRENCY, schedule_ms=()
        ),
        created_at=consumer.created_at,
        changed_at=worker.changed_at,
        script=worker.script,
        batch_size=consumer.batch_size or DEFAULT_BATCH,
        max_wait_ms=DEFAULT_WAIT_MS if wait_ms is None else wait_ms,
    )
