"""Messages that wait for their publication, and their way into the queues.

A publication is one small transaction: from then on all of it will be sent. The messages land chunk by chunk, each in
a commit of its own, so that nobody else waits for long. An operation on one of their queues lands the rest first, so
that nobody sees a part of it.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from couriermq.core.errors import Unavailable
from couriermq.core.lifecycle import publish as rules
from couriermq.core.lifecycle import send
from couriermq.core.lifecycle.expire import STEP
from couriermq.core.lifecycle.needs import Deciding, PublicationOf
from couriermq.core.lifecycle.rows import encode
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import MINUTE, Publication
from couriermq.core.receipts import Sealer
from couriermq.storage.base import Chunk, Directory, Staged
from couriermq.storage.group_commit import GroupCommit
from couriermq.storage.sqlite.checksums import sound
from couriermq.storage.sqlite.engine import Engine
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.staging import MEMORY_MS, STAGE_MS, staged_of, unpack

AT_ONCE = 2
"""Chunks that share a commit: as much as one turn of the writer takes."""

log = logging.getLogger(__name__)

_keys = msgspec.msgpack.Decoder(set[int]).decode


class Stages:
    """The part of the store for messages that come in two steps."""

    if TYPE_CHECKING:
        _db: sqlite3.Connection
        _commit: GroupCommit
        _engine: Engine
        _directory: Directory
        sealer: Sealer

        def _refusal(self) -> str | None: ...

        async def _look(self, order: Callable[[Unit], Any]) -> Any: ...

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

        def order(unit: Unit) -> None:
            if not self._db.execute(Q.is_landing, (target, stage)).fetchone():
                self._db.executemany(Q.insert_chunk, rows)

        await self._commit.submit(order)

    async def publish(
        self, target: str, *, series: str, number: int, stages: Sequence[str], now: int, principal: str
    ) -> Publication:
        def order(unit: Unit) -> Deciding[Publication]:
            publication, keys = yield from rules.publish(
                unit, target, series=series, number=number, stages=stages, now=now, principal=principal
            )
            self._landing |= keys
            return publication

        publication: Publication = await self._commit.submit(order)
        await self._land_all()
        return publication

    async def publication(self, target: str, *, series: str) -> Publication | None:
        def order(unit: Unit) -> Deciding[Publication | None]:
            known: Publication | None = yield PublicationOf(target, series)
            return known

        found: Publication | None = await self._look(order)
        return found

    async def drop_stages(self, target: str, *, stages: Sequence[str]) -> None:
        def order(unit: Unit) -> None:
            self._db.executemany(Q.drop_stage, [(target, stage) for stage in stages])

        await self._commit.submit(order)

    async def staged(self, targets: Sequence[str]) -> Staged:
        names = msgspec.json.encode(targets).decode()
        rows = await self._look(lambda unit: self._db.execute(Q.staged, (names,)).fetchall())
        return staged_of(rows)

    # -- landing ----------------------------------------------------------------------------------------------

    async def _land_all(self) -> None:
        while self._landing:
            await asyncio.gather(*(self._commit.submit(self._land) for _ in range(AT_ONCE)))
            self._look_at_landings()

    def _look_at_landings(self) -> None:
        """Outside of any transaction: only what is committed counts."""
        try:
            rows = self._db.execute(Q.landing_keys).fetchall()
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"publications cannot be read: {error}; run `courier doctor`") from error
        if not all(is_sound for _, is_sound in rows):
            raise Unavailable("a publication that is on its way is damaged; run `courier doctor`")
        self._landing = frozenset().union(*(_keys(blob) for blob, _ in rows))

    def _land(self, unit: Unit) -> Deciding[None]:
        """Send one chunk."""
        self._engine.flush(unit)
        landing = self._db.execute(Q.next_landing).fetchone()
        if landing is None:
            return
        id_, target, stage, published_at, principal = sound("a publication that is on its way", landing)
        chunk = self._db.execute(Q.next_chunk, (target, stage)).fetchone()
        if chunk is None:
            self._db.execute(Q.delete_landing, (id_,))
            return
        row, count, parcels_blob, is_sound = chunk
        if not is_sound:
            log.error("a chunk of stage %s is damaged: its %s messages are lost", stage, count)
            self._commit.metrics.quarantined += count
            self._db.execute(Q.set_aside, (-row, 0, count, None, published_at))
            self._db.execute(Q.delete_chunk, (row,))
            return
        parcels, events = unpack(parcels_blob, self._directory, at=published_at)
        order = send.Order(parcels, published_at, principal, events)
        yield from send.send(unit, [order], queues=self._directory, sealer=self.sealer)
        self._db.execute(Q.delete_chunk, (row,))

    async def _forget_stages(self, now: int) -> None:
        """What nobody has published, and series that ended long ago."""

        def order(unit: Unit) -> bool:
            stages = self._db.execute(Q.forget_stages, {"until": now - STAGE_MS, "limit": 100}).rowcount
            series = self._db.execute(Q.forget_publications, {"until": now - MEMORY_MS, "limit": STEP}).rowcount
            return stages == 100 or series == STEP

        while self._stages_due <= now:
            more = await self._commit.submit(order)
            self._stages_due = now if more else now + MINUTE
