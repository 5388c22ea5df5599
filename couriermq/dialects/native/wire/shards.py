"""Shards, and queues on their way between them, on the wire."""

from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.core import sharding as core
from couriermq.core.limits import ID_CHARS
from couriermq.dialects.native.wire.reading import Order

ShardName = Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$")]
Address = Annotated[str, Meta(min_length=1, max_length=2_000)]
GONE = "(removed)"
"""Instead of the name of a shard that was removed since."""
Weight = Annotated[int, Meta(ge=0, le=1_000)]


class NewShard(Order):
    """An empty PostgreSQL database that is to hold queues."""

    name: ShardName
    database: Address
    weight: Weight = 1


class ShardChange(Order):
    """What is left out stays as it is."""

    weight: Weight | UnsetType = UNSET
    draining: bool | UnsetType = UNSET
    database: Address | UnsetType = UNSET


class RemovalQuery(Order):
    """Whether events that are not in the archive may be lost with the shard."""

    forget_journal: bool = False


class QueueMoveOrder(Order):
    """Which queue is to live on the shard."""

    tenant: Annotated[str, Meta(min_length=1, max_length=ID_CHARS)]
    queue: Annotated[str, Meta(min_length=1)]


class ShardView(msgspec.Struct):
    """A database of the store; number 0 also holds everything that is not a message."""

    name: str
    number: int
    database: str
    weight: int
    draining: bool
    queue_count: int
    trouble: str | None


class QueueMove(msgspec.Struct):
    """A queue on its way to another shard."""

    tenant: str
    queue: str
    from_shard: str
    to_shard: str
    progress: str
    copied_count: int
    total_count: int
    frozen_ms: int | None
    trouble: str | None
    started_at: int


class ShardList(msgspec.Struct):
    """The shards by number, and the moves of the last hour."""

    shards: list[ShardView]
    moves: list[QueueMove]


NEW_SHARD = msgspec.json.Decoder(NewShard)
SHARD_CHANGE = msgspec.json.Decoder(ShardChange)
MOVE = msgspec.json.Decoder(QueueMoveOrder)


def write_shard(figures: core.ShardFigures) -> ShardView:
    shard = figures.shard
    return ShardView(
        shard.name,
        shard.number,
        without_password(shard.url),
        shard.weight,
        shard.state is core.ShardState.DRAINING,
        figures.queue_count,
        figures.trouble,
    )


def write_move(move: core.Relocation, names: dict[int, str]) -> QueueMove:
    return QueueMove(
        move.tenant,
        move.queue,
        names.get(move.source, GONE),
        names.get(move.target, GONE),
        move.state,
        move.copied_count,
        move.total_count,
        move.frozen_ms,
        move.reason,
        move.started_at,
    )


def without_password(url: str) -> str:
    """The address as it may be shown."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    user = parts.netloc.rpartition("@")[0].partition(":")[0]
    return urlunsplit(parts._replace(netloc=f"{user}@{parts.netloc.rpartition('@')[2]}"))
