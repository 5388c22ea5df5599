"""Messages that wait for their publication, and their way into the queues, which is one transaction.

It takes as long as it takes, but nobody waits for it: rows that are not yet committed are nobody's business, and the
journal's lock is taken at its very end.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from couriermq.core.errors import QueueNotFound, StageNotFound
from couriermq.core.model import MINUTE, Publication, Queue
from couriermq.core.receipts import Sealer
from couriermq.storage.base import Chunk, Directory, Parcel, Staged
from couriermq.storage.postgres import passing
from couriermq.storage.postgres.arrays import blobs, numbers
from couriermq.storage.postgres.circle import Circle
from couriermq.storage.postgres.link import Rows, Step
from couriermq.storage.postgres.pool import Pool
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.rows import encode
from couriermq.storage.postgres.sending import Intake, Memory, are_plain, dedup_key
from couriermq.storage.postgres.solo import alone
from couriermq.storage.postgres.transaction import Transaction
from couriermq.storage.staging import MEMORY_MS, STAGE_MS, staged_of, unpack

_keys = msgspec.msgpack.Decoder(set[int]).decode


class Stages:
    """What the store does with messages that come in two steps."""

    if TYPE_CHECKING:
        _circle: Circle
        _pool: Pool
        _directory: Directory
        sealer: Sealer

        @property
        def leads(self) -> bool: ...

    _stages_due = 0

    async def stage(self, target: str, *, stage: str, part: int, chunks: Sequence[Chunk], now: int) -> None:
        steps: list[Step] = [
            (
                Q.insert_chunk,
                {
                    "target": target, "name": stage, "part": part, "chunk": number, "count": chunk.count, "now": now,
                    "keys": encode(sorted(chunk.keys)), "parcels": chunk.parcels,
                },
            )
            for number, chunk in enumerate(chunks)
        ]  # fmt: skip
        await self._pool.ask(("BEGIN", {}), *steps, ("COMMIT", {}))

    async def publish(
        self, target: str, *, series: str, number: int, stages: Sequence[str], now: int, principal: str
    ) -> Publication:
        named = list(dict.fromkeys(stages))
        found = await self._pool.ask_one(Q.stage_keys, target=target, names=named)
        keys: set[int] = set().union(*(_keys(blob) for (blob,) in found))

        def queues() -> list[Queue]:
            return [queue for key in keys if (queue := self._directory.queue_of_key(key))]

        async def work(tx: Transaction) -> Publication:
            queue = self._directory.queue_of_id(target)
            if queue is not None and queue.key < 0:  # it has moved to another shard, or is about to
                raise QueueNotFound(queue.name)
            where = {"target": target, "series": series}
            known = _publication((await _ask(tx, Q.begin_publication, **where, now=now))[0])
            if known.number < number:
                count = 0
                for stage in named:
                    count += await self._send_stage(tx, target, stage, now=now, principal=principal)
                await _ask(tx, Q.end_publication, **where, number=number, count=count, now=now)
                known = Publication(series=series, number=number, count=count, published_at=now)
            await _ask(tx, Q.drop_stages, target=target, names=named)
            return known

        return await alone(self._circle, self._pool, queues, work)

    async def _send_stage(self, tx: Transaction, target: str, stage: str, *, now: int, principal: str) -> int:
        chunks = await _ask(tx, Q.lock_stage, target=target, name=stage)
        if not chunks:
            raise StageNotFound(stage)
        for part, chunk, _ in chunks:
            ((blob,),) = await _ask(tx, Q.read_chunk, target=target, name=stage, part=part, chunk=chunk)
            parcels, events = unpack(blob, self._directory, at=now)
            tx.events.extend(events)
            await self._send_parcels(tx, parcels, now=now, principal=principal)
        return sum(count for _, _, count in chunks)

    async def _send_parcels(self, tx: Transaction, parcels: list[Parcel], *, now: int, principal: str) -> None:
        steps: list[Step] = [(Q.next_seqs, {"count": len(parcels)})]
        keys = {key for parcel in parcels if (key := dedup_key(parcel.queue, parcel.draft, parcel.once))}
        if keys:
            steps.append((Q.read_dedup, {"keys": numbers(k for k, _ in keys), "ids": blobs(i for _, i in keys)}))
        await tx.flush()
        ((seqs,),), *remembered = await tx.ask(*steps)
        self._circle.seqs.given(seqs)
        memory: Memory = {(key, id_): tuple(kept) for rows in remembered for key, id_, *kept in rows}
        intake = Intake(
            tx, self._directory, self.sealer, seqs=iter(seqs), memory=memory, now=now,
            principal=principal,
        )  # fmt: skip
        intake.take_all(parcels, plain=are_plain(parcels))

    async def publication(self, target: str, *, series: str) -> Publication | None:
        found = await self._pool.ask_one(Q.read_publication, target=target, series=series)
        return _publication(found[0]) if found else None

    async def drop_stages(self, target: str, *, stages: Sequence[str]) -> None:
        await self._pool.ask_one(Q.drop_stages, target=target, names=list(stages))

    async def staged(self, targets: Sequence[str]) -> Staged:
        rows = await self._pool.ask_one(Q.staged, targets=list(targets))
        return staged_of(rows)

    async def _forget_stages(self, now: int) -> None:
        """What nobody has published, and series that ended long ago."""
        while self.leads and self._stages_due <= now:
            async with self._pool.taken() as connection:
                stages = await connection.execute(Q.forget_stages, {"until": now - STAGE_MS, "limit": 100})
                where = {"until": now - MEMORY_MS, "limit": passing.STEP}
                series = await connection.execute(Q.forget_publications, where)
            more = stages.rowcount == 100 or series.rowcount == passing.STEP
            self._stages_due = now if more else now + MINUTE


async def _ask(tx: Transaction, sql: str, **params: object) -> Rows:
    return (await tx.ask((sql, params)))[0]


def _publication(row: tuple[object, ...]) -> Publication:
    series, number, count, published_at = row
    return Publication(series=series, number=number, count=count, published_at=published_at)  # type: ignore[arg-type]
