"""Queues on the wire."""

from collections.abc import Sequence

import msgspec

from couriermq.core.model import Json, Listener, Queue
from couriermq.dialects.discue import schemas
from couriermq.dialects.discue.wire.answers import Child, path_of
from couriermq.dialects.discue.wire.reading import Named, read


class QueueOrder(Named):
    schema: Json | msgspec.UnsetType = msgspec.UNSET


_order = msgspec.json.Decoder(QueueOrder)


class QueueChange(msgspec.Struct):
    """What a caller wants of a queue; a schema that is None is to go, one that is UNSET stays."""

    name: str | None
    schema: schemas.Schema | msgspec.UnsetType | None


def read_queue(body: bytes) -> QueueChange:
    order = read(_order, body)
    schema = order.schema
    if schema is not msgspec.UNSET:
        schema = None if schema in (None, {}) else schemas.check_schema(schema)
    return QueueChange(order.called, schema)


def queue_path(queue_id: str) -> str:
    return path_of("queues", queue_id)


def listener_children(listeners: Sequence[Listener]) -> list[Child]:
    return [(one.name, path_of("queues", one.queue_id, "listeners", one.id)) for one in listeners]


def write_ref(queue: Queue) -> dict[str, Json]:
    """A queue in a list."""
    return {"id": queue.id, "name": queue.name, "alias": queue.name}


def write_queue(queue: Queue, listeners: Sequence[Listener]) -> dict[str, Json]:
    written: dict[str, Json] = {
        **write_ref(queue),
        "listeners": [{"id": one.id, "name": one.name, "alias": one.name} for one in listeners],
        "created_at": queue.created_at,
        "updated_at": queue.changed_at,
    }
    schema = schemas.schema_of(queue)
    if schema is not None:
        written |= {"schema": schema, "schema_id": schemas.schema_id(schema)}
    return written
