"""Messages that wait for their publication, and their way into the queues.

A publication is one small transaction: from then on all of it will be sent. The messages land chunk by chunk, each in
a commit of its own, so that nobody else waits for long; and whoever looks at one of their queues lands what is left
first, so that nobody sees a part of it.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from couriermq.core.errors import StageNotFound, Unavailable
from couriermq.core.model import MINUTE, Publication
from couriermq.core.receipts import Sealer
from couriermq.storage.base import Chunk, Directory, Staged
from couriermq.storage.sqlite import passing, sending
from couriermq.storage.sqlite.commit import GroupCommit
from couriermq.storage.sqlite.ledger import Tx
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import encode
from couriermq.storage.staging import MEMORY_MS, STAGE_MS, unpack

if TYPE_CHECKING:
    import sqlite3

AT_ONCE = 2
"""Chunks that share a commit: as much as one turn of the writer takes."""

_keys = msgspec.msgpack.Decoder(set[int]).decode


class Stages:
    """What the store does with messages that come in two steps."""

    if TYPE_CHECKING:
        _db: sqlite3.Connection
        _commit: GroupCommit
        _directory: Directory
        sealer: Sealer

        def _refusal(self) -> str | None: ...

    _landing: frozenset[int] = frozenset()
    """Keys of queues that published messages are on their way to; now and then one too many."""
    _stages_due = 0

    async def stage(self, target: str, *, stage: str, part: int, chunks: Sequence[Chunk], now: int) -> None:
        if reason := self._refusal():
            raise Unavailable(reason)
        rows = [
            (target, stage, part, number, chunk.count, now, encode(sorted(chunk.keys)), chunk.parcels)
            for number, chunk in enumerate(chunks)
        ]

        def operation(tx: Tx) -> None:
            if not tx.execute(Q.is_landing, (target, stage)).fetchone():
                tx.executemany(Q.insert_chunk, rows)

        await self._commit.submit(operation)

    async def publish(
        self, target: str, *, series: str, number: int, stages: Sequence[str], now: int, principal: str
    ) -> Publication:
        def operation(tx: Tx) -> Publication:
            known = read_publication(tx.db, target, series)
            if known is not None and known.number >= number:
                _drop(tx, target, stages)
                return known
            count = 0
            for stage in dict.fromkeys(stages):
                keys, held = _publish(tx, target, stage, now=now, principal=principal)
                self._landing |= keys
                count += held
            tx.execute(Q.put_publication, (target, series, number, count, now))
            return Publication(series=series, number=number, count=count, published_at=now)

        publication = await self._commit.submit(operation)
        await self._land_all()
        return publication

    async def publication(self, target: str, *, series: str) -> Publication | None:
        return read_publication(self._db, target, series)

    async def drop_stages(self, target: str, *, stages: Sequence[str]) -> None:
        await self._commit.submit(partial(_drop, target=target, stages=stages))

    async def staged(self, targets: Sequence[str]) -> Staged:
        rows = self._db.execute(Q.staged, (msgspec.json.encode(targets).decode(),)).fetchall()
        return Staged([(target, name) for target, name, _, _ in rows], sum(r[2] for r in rows), sum(r[3] for r in rows))

    # -- landing ----------------------------------------------------------------------------------------------

    async def _land_all(self) -> None:
        while self._landing:
            await asyncio.gather(*(self._commit.submit(self._land) for _ in range(AT_ONCE)))
            self._look_at_landings()

    def _look_at_landings(self) -> None:
        """Outside of any transaction: only what is committed counts."""
        blobs = [blob for (blob,) in self._db.execute(Q.landing_keys)]
        self._landing = frozenset().union(*map(_keys, blobs))

    def _land(self, tx: Tx) -> None:
        """Send one chunk."""
        landing = tx.execute(Q.next_landing).fetchone()
        if landing is None:
            return
        id_, target, stage, published_at, principal = landing
        chunk = tx.execute(Q.next_chunk, (target, stage)).fetchone()
        if chunk is None:
            tx.execute(Q.delete_landing, (id_,))
            return
        parcels, events = unpack(chunk[1], self._directory, at=published_at)
        tx.events.extend(events)
        sending.send(tx, parcels, directory=self._directory, sealer=self.sealer, now=published_at, principal=principal)
        tx.execute(Q.delete_chunk, (chunk[0],))

    async def _forget_stages(self, now: int) -> None:
        """What nobody has published, and series that ended long ago."""
        while self._stages_due <= now:
            more = await self._commit.submit(partial(_forget, now=now))
            self._stages_due = now if more else now + MINUTE


def read_publication(db: "sqlite3.Connection", target: str, series: str) -> Publication | None:
    row = db.execute(Q.read_publication, (target, series)).fetchone()
    return Publication(series=row[0], number=row[1], count=row[2], published_at=row[3]) if row else None


def _publish(tx: Tx, target: str, stage: str, *, now: int, principal: str) -> tuple[set[int], int]:
    """The keys that a stage's messages are for, and how many those are."""
    chunks = tx.execute(Q.stage_chunks, (target, stage)).fetchall()
    if not chunks or tx.execute(Q.is_landing, (target, stage)).fetchone():
        raise StageNotFound(stage)
    keys: set[int] = set().union(*(_keys(blob) for _, blob in chunks))
    tx.execute(Q.add_landing, (target, stage, now, principal, encode(sorted(keys))))
    return keys, sum(count for count, _ in chunks)


def _drop(tx: Tx, target: str, stages: Sequence[str]) -> None:
    tx.executemany(Q.drop_stage, [{"target": target, "name": stage} for stage in stages])


def _forget(tx: Tx, now: int) -> bool:
    """Whether there may be more of them."""
    stages = tx.execute(Q.forget_stages, {"until": now - STAGE_MS, "limit": 100}).rowcount
    series = tx.execute(Q.forget_publications, {"until": now - MEMORY_MS, "limit": passing.STEP}).rowcount
    return stages == 100 or series == passing.STEP
