"""The databases of a store that is divided, and moving queues between them."""

import msgspec

from couriermq.core.errors import AlreadyExists, InUse, Invalid, QueueNotFound, ShardNotFound, TenantNotFound
from couriermq.core.sharding import ShardFigures, ShardState
from couriermq.dialects.native.operations import PREFIX, Operation, created, gone, ok
from couriermq.dialects.native.wire import shards as wire
from couriermq.dialects.native.wire.reading import read, read_query
from couriermq.web.call import Call, Reply
from couriermq.web.services import Shards


async def list_shards(call: Call) -> Reply:
    shards = _shards(call)
    figures = shards.figures()
    names = {one.shard.number: one.shard.name for one in figures}
    moves = [wire.write_move(move, names) for move in shards.relocations()]
    return ok(wire.ShardList([wire.write_shard(one) for one in figures], moves))


async def add_shard(call: Call) -> Reply:
    shards, order = _shards(call), read(wire.NEW_SHARD, call.body)
    await shards.add(order.name, order.database, weight=order.weight)
    return created(wire.write_shard(_figures(shards, order.name)), call.path, order.name)


async def change_shard(call: Call) -> Reply:
    shards, name = _shards(call), call.params["shard"]
    order = read(wire.SHARD_CHANGE, call.body)
    changes: dict[str, object] = {}
    if order.weight is not msgspec.UNSET:
        changes["weight"] = order.weight
    if order.draining is not msgspec.UNSET:
        changes["state"] = ShardState.DRAINING if order.draining else ShardState.ACTIVE
    if order.database is not msgspec.UNSET:
        changes["url"] = order.database
    await shards.change(name, **changes)
    return ok(wire.write_shard(_figures(shards, name)))


async def remove_shard(call: Call) -> Reply:
    shards, name = _shards(call), call.params["shard"]
    query = read_query(call, wire.RemovalQuery)
    figures = [one for one in shards.figures() if one.shard.name == name]
    for one in figures if not query.forget_journal else ():
        if count := await call.services.history.unsealed_count(one.shard.number):
            raise InUse(name, f"{count} events that are in no archive yet")
    await shards.remove(name)
    return gone()


async def move_queue(call: Call) -> Reply:
    shards, order = _shards(call), read(wire.MOVE, call.body)
    queue = call.services.catalog.queue(call.services.catalog.tenant(order.tenant).id, order.queue)
    move = await shards.move(queue, call.params["shard"])
    names = {one.shard.number: one.shard.name for one in shards.figures()}
    return ok(wire.write_move(move, names))


def _shards(call: Call) -> Shards:
    call.principal.require_root()
    shards = call.services.shards
    if shards is None:
        raise Invalid("this store is a single file; only one on PostgreSQL can have shards")
    return shards


def _figures(shards: Shards, name: str) -> ShardFigures:
    return next(one for one in shards.figures() if one.shard.name == name)


SHARD = PREFIX + "/shards/{shard}"

OPERATIONS = (
    Operation(
        method="GET",
        path=PREFIX + "/shards",
        handler=list_shards,
        tag="Shards",
        summary="List the shards, and the queues that are on the move",
        needs="root",
        gives={200: wire.ShardList},
    ),
    Operation(
        method="POST",
        path=PREFIX + "/shards",
        handler=add_shard,
        tag="Shards",
        summary="Add an empty database as a shard",
        description="New queues are placed there from now on, as many as its weight asks for.",
        needs="root",
        takes=wire.NewShard,
        example={"name": "second", "database": "postgresql://courier@db2/courier", "weight": 1},
        gives={201: wire.ShardView},
        answer_headers={"Location": "The address of what was created."},
        fails=(AlreadyExists,),
    ),
    Operation(
        method="PATCH",
        path=SHARD,
        handler=change_shard,
        tag="Shards",
        summary="Weigh a shard, drain it, or say where its database is now",
        description="A shard that is drained gets no new queues, and those that it has are moved away one by one. At"
        " another address there must be the same shard, such as a standby that was promoted.",
        needs="root",
        takes=wire.ShardChange,
        example={"weight": 2},
        gives={200: wire.ShardView},
        fails=(ShardNotFound,),
    ),
    Operation(
        method="DELETE",
        path=SHARD,
        handler=remove_shard,
        tag="Shards",
        summary="Remove a shard that is drained and empty",
        description="Its number is not given again, and what the archive holds of its journal can still be read. A"
        " shard whose journal has events that are in no archive is only removed with `forget_journal`.",
        needs="root",
        query=wire.RemovalQuery,
        gives={204: None},
        fails=(ShardNotFound, InUse),
    ),
    Operation(
        method="POST",
        path=SHARD + "/moves",
        handler=move_queue,
        tag="Shards",
        summary="Move a queue to this shard while it is used",
        description="The answer says that it has begun; the list of shards says how far it is. For a moment at the end"
        " callers wait; receipts and everything else hold.",
        needs="root",
        takes=wire.QueueMoveOrder,
        example={"tenant": "default", "queue": "orders"},
        gives={200: wire.QueueMove},
        fails=(ShardNotFound, TenantNotFound, QueueNotFound, InUse),
    ),
)
