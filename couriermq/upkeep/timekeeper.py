"""Lets time pass for the store: sleeps until something is due, applies it, and trims the journal now and then."""

import asyncio
import logging
from collections.abc import Callable

from couriermq.clock import Clock
from couriermq.core.duties import UPKEEP
from couriermq.core.errors import CourierError
from couriermq.core.model import MINUTE, SECOND
from couriermq.storage.base import ShardLog, Store, newest_at

TICK_MS = MINUTE
"""At least this often there is a look, whatever was announced."""
RETRY_MS = SECOND

log = logging.getLogger(__name__)


class Timekeeper:
    """Run it as one task beside the server. `due` is the store's way to say that something will happen sooner.

    `held` names the offset from which on somebody still wants to read a lane of the journal, if so.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        journal_ms: int | None = None,
        journal_bytes: int | None = None,
        held: Callable[[int], int | None] = lambda lane: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._journal_ms = journal_ms
        self._journal_bytes = journal_bytes
        self._held = held
        self._next_trim_at = 0
        self._wake_at = 0
        self._sooner = asyncio.Event()

    def due(self, at: int) -> None:
        if at < self._wake_at:
            self._wake_at = at
            self._sooner.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._wake_at = await self._pass_time()
            await self._sleep()

    async def _pass_time(self) -> int:
        """Apply what is due; returns when to look again. What is announced meanwhile is not missed."""
        now = self._clock.now()
        self._wake_at = now + TICK_MS
        try:
            upcoming = await self._store.advance(now=now)
            await self._trim(now)
        except CourierError as error:
            log.warning("upkeep waits: %s", error)
            return now + RETRY_MS
        except Exception:
            log.exception("upkeep failed; will try again")  # time must not stand still for a bug of ours
            return now + RETRY_MS
        return min(self._wake_at, now + TICK_MS if upcoming is None else upcoming)

    async def _sleep(self) -> None:
        while self._clock.now() < self._wake_at:
            self._sooner.clear()
            alarm = asyncio.ensure_future(self._clock.sleep_until(self._wake_at))
            sooner = asyncio.ensure_future(self._sooner.wait())
            try:
                await asyncio.wait((alarm, sooner), return_when=asyncio.FIRST_COMPLETED)
            finally:
                # Not awaited: our own cancellation, coming in that moment, would be taken for theirs.
                for task in (alarm, sooner):
                    task.cancel()

    async def _trim(self, now: int) -> None:
        """Forget events that are older, or more, than the journal is meant to hold."""
        if now < self._next_trim_at or not self._store.holds(UPKEEP):
            return
        self._next_trim_at = now + TICK_MS
        for journal in self._store.journals():
            await self._trim_journal(journal, now)
            await journal.tidy()

    async def _trim_journal(self, journal: ShardLog, now: int) -> None:
        """Lanes share the bytes that a journal may have evenly."""
        spans = await journal.spans()
        aged = {} if self._journal_ms is None else await journal.offsets_at(now - self._journal_ms)
        for lane, span in spans.items():
            end = max(span.oldest, aged.get(lane, span.oldest))
            if self._journal_bytes is not None:
                end = max(end, await journal.offset_keeping(self._journal_bytes // len(spans), lane))
            held = self._held(lane)
            end = end if held is None else min(end, held)
            if end > span.oldest:
                await journal.trim_events(before=end)


async def go_on_in_time(store: Store, clock: Clock, *, most_ms: int | None) -> None:
    """Where the wall clock was set back since the last event, go on from that event's instant.

    `most_ms` is how far the clock of a node may jump that shares its store with others.
    """
    newest, now = await newest_at(store), clock.now()
    if newest is None or newest <= now:
        return
    ahead = f"the newest event in the journal is {newest - now} ms ahead of the system's clock"
    if most_ms is not None and newest - now > most_ms:
        log.warning("%s: set the clocks of all nodes and of the database right", ahead)
        return
    log.warning("%s, which was set back; Courier goes on from that instant", ahead)
    clock.start_at(newest)
