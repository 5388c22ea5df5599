"""What each shard's engine is told of queues: its own as they are, those of other shards as stand-ins.

Key `-K` stands for queue K on a shard where it does not live: what the engine puts there, a dead letter or a moved
message, waits to be carried over. A key from OUTBOX on stands for the parcels that are to be sent in another shard.
"""

from collections.abc import Callable, Sequence

import msgspec

from couriermq.core.model import DAY, Kind, Queue, QueueSettings
from couriermq.core.shards import MOST_SHARDS, OUTBOX
from couriermq.storage.base import Directory, StoredRecord
from couriermq.storage.sharded.places import FENCE, KINDS, Fence, Places, queues_in

OUTBOX_SETTINGS = QueueSettings(lease_ms=10_000, retention_ms=14 * DAY, archive_bodies=False)


def outbox(shard: int) -> Queue:
    """The queue in which parcels for a shard wait; one group, so that they keep their order."""
    name = f"~shard/{shard}"
    return Queue(
        key=OUTBOX + shard, id=name, tenant="", name=name, kind=Kind.FIFO, settings=OUTBOX_SETTINGS, owner="shards"
    )


def stand_in(queue: Queue) -> Queue:
    """Where messages for a queue wait on a shard that is not its own; named like it, because that is where they go."""
    settings = msgspec.structs.replace(queue.settings, dead_letter_queue=None)
    return msgspec.structs.replace(queue, key=-queue.key, kind=Kind.STANDARD, settings=settings)


class Residents:
    """The queues that live on one shard, as the records in its own database say."""

    def __init__(self, number: int, places: Places, catalog: Directory, on_news: Callable[[set[int]], None]) -> None:
        self._number = number
        self._places = places
        self._catalog = catalog
        self._on_news = on_news
        self._queues: dict[int, Queue] = {}
        self._fenced: set[int] = set()

    def queue_of_key(self, key: int) -> Queue | None:
        if key < 0:
            known = self._catalog.queue_of_key(-key)
            return None if known is None else stand_in(known)
        if OUTBOX <= key < OUTBOX + MOST_SHARDS:
            return outbox(key - OUTBOX)
        return self._own(key)

    def _own(self, key: int) -> Queue | None:
        if key in self._fenced or self._places.of(key) != self._number:
            return None
        return self._queues.get(key)

    def queue_of_id(self, queue_id: str) -> Queue | None:
        known = self._catalog.queue_of_id(queue_id)
        return None if known is None else self._own(known.key) or stand_in(known)

    def residents(self) -> dict[int, Queue]:
        return dict(self._queues)

    def fence(self, keys: Sequence[int]) -> None:
        self._fenced.update(keys)

    def fence_by(self, records: Sequence[StoredRecord]) -> None:
        """Exactly these, of all records there are."""
        self._fenced = set(_fenced_keys(records))

    def unfence(self, keys: Sequence[int]) -> None:
        self._fenced.difference_update(keys)

    def learn(self, *, put: Sequence[StoredRecord], delete: Sequence[StoredRecord]) -> None:
        for queue in queues_in(delete):
            self._queues.pop(queue.key, None)
        for queue in queues_in(put):
            self._queues[queue.key] = queue
        self.unfence(_fenced_keys(delete))
        self.fence(_fenced_keys(put))
        self._on_news(set())


class HomeResidents(Residents):
    """The home knows every queue, and from the map which of them live elsewhere."""

    def __init__(self, places: Places, catalog: Directory, on_news: Callable[[set[int]], None]) -> None:
        super().__init__(0, places, catalog, on_news)

    def _own(self, key: int) -> Queue | None:
        if key in self._fenced or self._places.of(key):
            return None
        return self._catalog.queue_of_key(key)

    def learn(self, *, put: Sequence[StoredRecord], delete: Sequence[StoredRecord]) -> None:
        """The map first: a queue must not seem to live at home for a moment."""
        self.unfence(_fenced_keys(delete))
        self.fence(_fenced_keys(put))
        moved = self._places.learn(put, delete)
        mine = KINDS | {FENCE}
        self._catalog.learn(
            put=[record for record in put if record.kind not in mine],
            delete=[record for record in delete if record.kind not in mine],
        )
        self._on_news(moved)


def _fenced_keys(records: Sequence[StoredRecord]) -> list[int]:
    return [msgspec.msgpack.decode(r.document, type=Fence).key for r in records if r.kind == FENCE]
