"""Workers on the wire: which script runs where, and how its consumers do."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.core import consumers
from couriermq.core.model import Queue
from couriermq.delivery import Health
from couriermq.delivery.consumers import WorkerConsumer
from couriermq.delivery.guard import URL_CHARS
from couriermq.dialects.native.wire.reading import Order

Url = Annotated[str, Meta(extra_json_schema={"format": "uri", "maxLength": URL_CHARS})]


class WorkerAttachment(Order):
    """Where the bridge of a script listens. Without `secret`, the present one stays, or one is made."""

    url: Url
    secret: Annotated[str, Meta(description="What batches are signed with: `whsec_…` (HMAC-SHA256).")] | None = None


class WorkerConsumerState(msgspec.Struct):
    """A consumer that names the script."""

    consumer_id: str
    queue: str
    queue_id: str
    batch_size: int
    max_wait_ms: int
    concurrency: int
    health: Health


class Worker(msgspec.Struct):
    script: str
    tenant: str
    url: str
    consumers: list[WorkerConsumerState]
    created_at: int
    changed_at: int
    secret: Annotated[str, Meta(description="Shown only by the call that has set it.")] | UnsetType = UNSET


class Workers(msgspec.Struct):
    workers: list[Worker]
    next: str | None


ATTACHMENT = msgspec.json.Decoder(WorkerAttachment)


def write_worker(
    worker: consumers.Worker, served: list[tuple[Queue, WorkerConsumer, Health]], *, reveal: bool = False
) -> Worker:
    return Worker(
        script=worker.script,
        tenant=worker.tenant,
        url=worker.url,
        consumers=[_write_consumer(*one) for one in served],
        created_at=worker.created_at,
        changed_at=worker.changed_at,
        secret=worker.secrets[0].value if reveal and worker.secrets else UNSET,
    )


def _write_consumer(queue: Queue, consumer: WorkerConsumer, health: Health) -> WorkerConsumerState:
    return WorkerConsumerState(
        consumer_id=consumer.id,
        queue=queue.name,
        queue_id=queue.id,
        batch_size=consumer.batch_size,
        max_wait_ms=consumer.max_wait_ms,
        concurrency=consumer.settings.concurrency,
        health=health,
    )
