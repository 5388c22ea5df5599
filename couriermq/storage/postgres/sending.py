"""Messages on their way in."""

import itertools
from collections.abc import Iterator, Sequence

from couriermq.core.errors import CourierError, QueueNotFound
from couriermq.core.events import EventKind, sent_detail, sent_details
from couriermq.core.model import DEDUP_MS, Draft, Kind, Queue, Sent, State
from couriermq.core.receipts import Sealer
from couriermq.storage.base import Directory, Parcel
from couriermq.storage.postgres.rows import Content, content_of, encode
from couriermq.storage.postgres.transaction import Transaction

SENT = EventKind.SENT.value

Memory = dict[tuple[int, bytes], tuple[int, int, bytes]]
"""By queue and dedup id: until when a FIFO queue remembers which seq and id."""


def dedup_key(queue: Queue, draft: Draft, once: str | None = None) -> tuple[int, bytes] | None:
    """Under what a queue remembers a draft, if it does; names of parcels and ids of messages never meet."""
    dedup_id = draft.dedup_id or draft.id
    if queue.kind is not Kind.FIFO or dedup_id is None or queue.owner is not None:
        return None if once is None else (queue.key, b"\xff" + once.encode())
    return queue.key, dedup_id.encode()


def are_plain(parcels: Sequence[Parcel]) -> bool:
    """Whether all are for one standard queue and differ in nothing but what they say: that is most of what is sent."""
    if not parcels or parcels[0].queue.kind is not Kind.STANDARD:
        return False
    queue = parcels[0].queue
    for parcel in parcels:
        draft = parcel.draft
        if (
            parcel.queue is not queue or draft.id is not None or draft.delay_ms or draft.group is not None
            or draft.retention_ms is not None or parcel.copy_of is not None or parcel.once is not None
        ):  # fmt: skip
            return False
    return True


class Intake:
    """Takes the parcels of one call."""

    def __init__(
        self,
        tx: Transaction,
        directory: Directory,
        sealer: Sealer,
        *,
        seqs: Iterator[int],
        memory: Memory,
        now: int,
        principal: str,
    ) -> None:
        self._tx = tx
        self._directory = directory
        self._sealer = sealer
        self._seqs = seqs
        self._memory = memory
        self._now = now
        self._principal = principal
        self._alone = False  # a message that others copy is found by its seq when they are delivered

    def take_all(self, parcels: Sequence[Parcel], *, plain: bool) -> list[Sent | CourierError]:
        """Each parcel; one for a queue that was deleted meanwhile is refused alone. `plain`: see `are_plain`."""
        queue = self._directory.queue_of_key(parcels[0].queue.key) if plain else None
        if queue is not None and not queue.settings.delay_ms:
            return self._take_waiting(queue, parcels)
        outcomes: list[Sent | CourierError] = []
        self._alone = any(parcel.copy_of is not None for parcel in parcels)
        for parcel in parcels:
            original = None if parcel.copy_of is None else outcomes[parcel.copy_of]
            if original is not None and (isinstance(original, CourierError) or original.duplicate):
                outcomes.append(original)
                continue
            queue = self._directory.queue_of_key(parcel.queue.key)
            if queue is None:
                outcomes.append(QueueNotFound(parcel.queue.name))
            elif original is None or parcels[parcel.copy_of or 0].queue.settings.keep_delivered:
                outcomes.append(self._take(queue, parcel))
            else:
                outcomes.append(self._take(queue, parcel, origin=original.seq))
        return outcomes

    def _take_waiting(self, queue: Queue, parcels: Sequence[Parcel]) -> list[Sent | CourierError]:
        """What `_take` does, for many messages that differ in nothing but what they say."""
        tx, now = self._tx, self._now
        drafts = [parcel.draft for parcel in parcels]
        sizes = [len(draft.body) for draft in drafts]
        seqs = list(itertools.islice(self._seqs, len(drafts)))
        minted = self._sealer.message_ids(seqs)
        contents = [Content(d.body, d.content_type, now, 0, d.attributes, d.trace) for d in drafts]
        tx.wait(queue.key, now).add(seqs, minted, [now] * len(seqs), sizes, contents)
        tx.change(queue.key).add(State.READY, sum(sizes), len(seqs))
        tx.made_ready(queue.key, len(seqs))
        tx.due(queue.key, now + queue.settings.retention_ms)
        self._note_all(queue, drafts, seqs, minted, sizes)
        return list(map(Sent, seqs, minted))

    def _note_all(
        self, queue: Queue, drafts: Sequence[Draft], seqs: list[int], message_ids: list[str], sizes: list[int]
    ) -> None:
        """That they were sent; those that follow each other and are told of alike at a stroke."""
        whole, first = queue.settings.archive_bodies, 0
        for detail, count in sent_details(drafts, queue):
            last = first + count
            self._tx.events.note_all(
                SENT, self._now, queue, seqs[first:last], message_ids[first:last], [0] * (last - first),
                sizes[first:last], self._principal, detail,
                [draft.body for draft in drafts[first:last]] if whole else (),
            )  # fmt: skip
            first = last

    def _take(self, queue: Queue, parcel: Parcel, *, origin: int | None = None) -> Sent:
        draft = parcel.draft
        key = dedup_key(queue, draft, parcel.once)
        if key is not None and (kept := self._memory.get(key)) and kept[0] > self._now:
            return Sent(kept[1], kept[2].decode(), duplicate=True)
        tx, now, size = self._tx, self._now, len(draft.body)
        seq = next(self._seqs)
        message_id = self._sealer.message_id(seq) if draft.id is None else draft.id
        delay_ms = queue.settings.delay_ms if draft.delay_ms is None else draft.delay_ms
        discard_at = None if draft.retention_ms is None else now + draft.retention_ms
        group = _group(queue, draft)
        content = content_of(draft, sent_at=now, delay_ms=delay_ms)
        if draft.id is None and group is None and not (delay_ms or discard_at or self._alone):
            tx.wait(queue.key, now).add([seq], [message_id], [now], [size], [content])
        else:
            tx.insert((
                seq, queue.key, 0 if delay_ms else 1, size, now + delay_ms, now, discard_at, origin,
                draft.id is not None, message_id.encode(), group, encode(content), 0, 0, None,
            ))  # fmt: skip
        self._count(queue, size, delay_ms, discard_at)
        if queue.kind is Kind.FIFO:
            tx.touch_group(queue.key, group)
        if key is not None:
            self._remember(key, seq, message_id.encode())
        tx.events.note(
            SENT, now, queue, seq, message_id, 0, size, self._principal, sent_detail(draft, queue, delay_ms),
            draft.body if queue.settings.archive_bodies else None,
        )  # fmt: skip
        return Sent(seq, message_id)

    def _remember(self, key: tuple[int, bytes], seq: int, message_id: bytes) -> None:
        until_at = self._now + DEDUP_MS
        self._memory[key] = until_at, seq, message_id
        self._tx.remember(*key, until_at=until_at, seq=seq, message_id=message_id)

    def _count(self, queue: Queue, size: int, delay_ms: int, discard_at: int | None) -> None:
        tx, change = self._tx, self._tx.change(queue.key)
        change.add(State.DELAYED if delay_ms else State.READY, size)
        if delay_ms:
            tx.due(queue.key, self._now + delay_ms)
        else:
            tx.made_ready(queue.key)
            tx.show(queue.key, self._now)
        tx.due(queue.key, self._now + queue.settings.retention_ms if discard_at is None else discard_at)


def _group(queue: Queue, draft: Draft) -> bytes | None:
    if queue.kind is Kind.FIFO:
        return (draft.group or "").encode()
    return None if draft.group is None else draft.group.encode()
