"""The map: which shards there are, where each queue lives, what is on its way; kept as records of the home shard.

A queue without a place of its own lives at home. A fence is a record in the database that a queue is about to leave:
every transaction there sees it, so that a node which has not heard of the move cannot write to the old copy.
"""

from collections.abc import Iterable, Sequence

import msgspec

from couriermq.core.errors import ShardNotFound
from couriermq.core.model import Queue
from couriermq.core.sharding import HOME, Relocation, RelocationState, Shard
from couriermq.storage.base import StoredRecord

SHARD, PLACE, RELOCATION, FENCE, ERA = "shard", "place", "relocation", "fence", "era"
KINDS = {SHARD, PLACE, RELOCATION, ERA}

_encode = msgspec.msgpack.Encoder().encode


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a queue lives, when that is not at home."""

    tenant: str
    queue_id: str
    key: int
    shard: int


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that cannot be used in this database for now."""

    tenant: str
    queue_id: str
    key: int


class Places:
    """The map as this node knows it."""

    def __init__(self) -> None:
        self.shards: dict[int, Shard] = {0: HOME}
        self.relocations: dict[str, Relocation] = {}  # by queue id
        self.next_era = 0
        self._places: dict[int, int] = {}

    @property
    def is_plain(self) -> bool:
        """One shard, as nearly always."""
        return len(self.shards) == 1

    @property
    def present(self) -> list[Shard]:
        """The shards that were not removed, by number."""
        return [shard for _, shard in sorted(self.shards.items()) if not shard.is_removed]

    def of(self, key: int) -> int:
        return self._places.get(key, 0)

    def put(self, key: int, shard: int) -> None:
        self._places[key] = shard

    def forget(self, key: int) -> None:
        self._places.pop(key, None)

    def count(self, queues: Iterable[Queue]) -> dict[int, int]:
        """How many queues each shard has; those of listeners live with others and do not count."""
        counts = dict.fromkeys(self.shards, 0)
        for queue in queues:
            if queue.owner is None:
                counts[self.of(queue.key)] += 1
        return counts

    def is_moving(self, queue_id: str) -> bool:
        known = self.relocations.get(queue_id)
        return known is not None and not known.state.is_over

    def is_being_left(self, shard: int) -> bool:
        """Whether a queue is copied from this shard, which stays in use until it lives elsewhere."""
        copying = {RelocationState.COPYING, RelocationState.FROZEN}
        return any(one.source == shard and one.state in copying for one in self.relocations.values())

    def shard_named(self, name: str) -> Shard:
        for shard in self.present:
            if shard.name == name:
                return shard
        raise ShardNotFound(name)

    def learn(self, put: Iterable[StoredRecord], delete: Iterable[StoredRecord]) -> set[int]:
        """Take in what records say; the keys of queues that have moved."""
        moved: set[int] = set()
        for record in delete:
            if record.kind == RELOCATION:
                self.relocations.pop(record.id, None)
            elif record.kind == PLACE:
                place = msgspec.msgpack.decode(record.document, type=Place)
                self.forget(place.key)
                moved.add(place.key)
        for record in put:
            if record.kind == SHARD:
                shard = msgspec.msgpack.decode(record.document, type=Shard)
                self.shards[shard.number] = shard
            elif record.kind == RELOCATION:
                self.relocations[record.id] = msgspec.msgpack.decode(record.document, type=Relocation)
            elif record.kind == ERA:
                self.next_era = msgspec.msgpack.decode(record.document, type=int)
            elif record.kind == PLACE:
                place = msgspec.msgpack.decode(record.document, type=Place)
                if self.of(place.key) != place.shard:
                    moved.add(place.key)
                self.put(place.key, place.shard)
        return moved

    def choose(self, counts: dict[int, int]) -> int:
        """Where the next queue goes: where there are fewest for the weight."""
        open_shards = [shard for shard in self.shards.values() if shard.share] or [self.shards[0]]
        best = min(open_shards, key=lambda shard: ((counts[shard.number] + 1) / max(shard.share, 1), shard.number))
        return best.number


def place_record(queue: Queue, shard: int) -> StoredRecord:
    place = Place(tenant=queue.tenant, queue_id=queue.id, key=queue.key, shard=shard)
    return StoredRecord(kind=PLACE, tenant=queue.tenant, id=queue.id, document=_encode(place))


def fence_record(queue: Queue) -> StoredRecord:
    fence = Fence(tenant=queue.tenant, queue_id=queue.id, key=queue.key)
    return StoredRecord(kind=FENCE, tenant=queue.tenant, id=queue.id, document=_encode(fence))


def shard_record(shard: Shard) -> StoredRecord:
    slot = None if shard.is_removed else f"shard/{shard.name}"
    return StoredRecord(kind=SHARD, tenant="", id=str(shard.number), document=_encode(shard), slot=slot)


def relocation_record(relocation: Relocation) -> StoredRecord:
    return StoredRecord(kind=RELOCATION, tenant=relocation.tenant, id=relocation.queue_id, document=_encode(relocation))


def era_record(following: int) -> StoredRecord:
    return StoredRecord(kind=ERA, tenant="", id="next", document=_encode(following))


def queue_record(queue: Queue) -> StoredRecord:
    """A queue as the shard where it lives knows it; its name is taken at home."""
    return StoredRecord(kind="queue", tenant=queue.tenant, id=queue.id, document=_encode(queue))


def named_record(queue: Queue) -> StoredRecord:
    """A queue as the home knows it; written again, it is looked at again."""
    return msgspec.structs.replace(queue_record(queue), slot=f"{queue.tenant}/destination/{queue.name}")


def turn_record() -> StoredRecord:
    """Says nothing but that the control plane has changed."""
    return StoredRecord(kind="turn", tenant="", id="turn", document=b"")


def queues_in(records: Sequence[StoredRecord]) -> list[Queue]:
    return [msgspec.msgpack.decode(record.document, type=Queue) for record in records if record.kind == "queue"]
