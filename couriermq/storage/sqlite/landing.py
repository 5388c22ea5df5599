"""The way of published messages into their queues.

A publication is one small transaction: from then on all of it will be sent. The messages land chunk by chunk, each in
a commit of its own, so that nobody else waits for long. An operation on one of their queues lands the rest first, so
that nobody sees a part of it.
"""

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from couriermq.core.errors import Unavailable
from couriermq.core.lifecycle.needs import Deciding, NextLanding
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Publication
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.stages import Stages

AT_ONCE = 2
"""Chunks that share a commit: as much as one turn of the writer takes."""

_keys = msgspec.msgpack.Decoder(set[int]).decode


class LandingStages(Stages):
    """Stages that land after their publication."""

    if TYPE_CHECKING:
        _db: sqlite3.Connection

    _landing: frozenset[int] = frozenset()
    """Keys of queues that published messages are on their way to; now and then one too many."""

    async def publish(
        self, target: str, *, series: str, number: int, stages: Sequence[str], parts: Mapping[str, int], now: int,
        principal: str,
    ) -> Publication:  # fmt: skip
        publication = await super().publish(
            target, series=series, number=number, stages=stages, parts=parts, now=now, principal=principal
        )
        await self._land_all()
        return publication

    def _land_stage(
        self, unit: Unit, target: str, stage: str, keys: set[int], *, now: int, principal: str
    ) -> Deciding[None]:
        unit.order("add_landing", target, stage, now, principal, sorted(keys))
        self._landing |= keys
        yield from ()

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
        landing: tuple[int, str, str, int, str] | None = yield NextLanding()
        if landing is None:
            return
        number, target, stage, published_at, principal = landing
        if not (yield from self._send_chunk(unit, target, stage, now=published_at, principal=principal)):
            unit.order("delete_landing", number)
