"""The journal as its readers see it, lane by lane, and its trimming."""

import asyncio
from collections.abc import Sequence
from functools import partial
from zlib import crc32

import psycopg

from couriermq.core.chronicle import Commit, blanked, entries_of, keep_bodies
from couriermq.core.errors import OffsetGone
from couriermq.core.events import Entry
from couriermq.core.jumps import Jump, skip
from couriermq.core.lanes import LANE_SIZE, SHARD_LANES, first_lane, first_of_lane, lane_of
from couriermq.core.lifecycle.needs import Content
from couriermq.core.limits import RESPONSE_BYTES
from couriermq.storage.base import Span
from couriermq.storage.contents import Damaged, Holes, is_intact
from couriermq.storage.metrics import Metrics
from couriermq.storage.postgres.connection import Connection, Pool, Rows, Step, ask, blobs, numbers
from couriermq.storage.postgres.facts import Facts, Q, to_packs, to_singles
from couriermq.storage.trimming import STEP, TIDIED, Round, is_copied

CHUNK = 64
"""How many rows are fetched at a time."""


class Journal:
    """What has been committed, by offset. Lanes are written by one connection at a time, so that none has a gap."""

    def __init__(self, pool: Pool, *, shard: int = 0) -> None:
        self.metrics = Metrics()
        self._pool = pool
        self._holes = Holes()
        self._first_lane = first_lane(shard)
        self._trimmed: dict[int, int] = {}
        self._round = Round()
        """By lane, up to where rows have been trimmed; the first trim looks at all rows."""

    async def spans(self) -> dict[int, Span]:
        """What can be read of each lane, by global number."""
        first = self._first_lane
        found = await self._pool.ask_one(Q.lanes, first, first + SHARD_LANES - 1)
        empty = {first: Span(oldest=first_of_lane(first), next=first_of_lane(first))}
        used = [row for row in found if row[2] > first_of_lane(row[0])]
        return empty | {lane: Span(oldest=oldest, next=next_) for lane, oldest, next_ in used}

    async def span_of(self, offset: int) -> Span:
        lane = lane_of(offset)
        return (await self.spans()).get(lane, Span(oldest=first_of_lane(lane), next=first_of_lane(lane)))

    async def read(self, *, start: int, limit: int) -> list[Entry]:
        commits = await self.commits(start=start, limit=limit)
        return await asyncio.to_thread(entries_of, commits, start=start, limit=limit) if commits else []

    async def commits(self, *, start: int, limit: int) -> list[Commit]:
        """Whole rows, from the one on that holds `start`, until there are about `limit` events; ends at a gap."""
        span = await self.span_of(start)
        if start < span.oldest:
            raise OffsetGone(start, span.oldest)
        jumps = self._pool.guard.jumps
        start = skip(jumps, start)
        commits: list[Commit] = []
        size, after, stop = 0, start, min(start + limit, span.next)
        while after < stop and size < RESPONSE_BYTES:
            rows = await self._pool.ask_one(Q.read_journal, after, stop, CHUNK, RESPONSE_BYTES)
            found = self._until_gap(rows, after, jumps)
            if not found:
                break
            commits += found
            size += sum(len(commit.events) for commit in found)
            after = skip(jumps, found[-1].start + found[-1].count)
        if not commits and start < span.next:
            oldest = (await self.span_of(start)).oldest
            if start < oldest:  # trimmed in this moment
                raise OffsetGone(start, oldest)
        return commits

    def _until_gap(self, rows: Rows, expected: int, jumps: Sequence[Jump]) -> list[Commit]:
        """The rows up to the first offset that is missing; for what is damaged readers get events that say so."""
        commits: list[Commit] = []
        for start, count, at, is_private, crc, events in rows:
            if start > expected or start + count <= expected:
                break
            if is_intact(events, crc):
                commits.append(Commit(start, count, blanked(events) if is_private else events))
            else:
                commits += self._holes.told([(start, start + count)], self.metrics, at=at)
            expected = skip(jumps, start + count)
        return commits

    async def offsets_at(self, at: int) -> dict[int, int]:
        """Of each lane the offset of the first event that was committed at `at` or later."""
        found: dict[int, int] = {}
        for lane, span in (await self.spans()).items():
            rows = await self._pool.ask_one(Q.offset_at, span.oldest, span.next, at)
            found[lane] = rows[0][0] if rows else span.next
        return found

    async def offset_keeping(self, size: int, lane: int) -> int:
        span = await self.span_of(first_of_lane(lane))
        ((found,),) = await self._pool.ask_one(Q.offset_keeping, span.oldest, span.next, size)
        return span.oldest if found is None else int(found)

    # -- trimming ---------------------------------------------------------------------------------------------

    async def trim(self, *, before: int) -> int:
        """Forget the rows of a lane below `before`; what messages wait in is only hidden."""
        lane = lane_of(before) if before else self._first_lane
        first = first_of_lane(lane)
        async with self._pool.taken() as connection:
            oldest = await _oldest(connection, first, before)
            if oldest is None:
                return (await self.span_of(first)).oldest
            (rows,) = await ask(connection, [(Q.put_oldest, (oldest, lane))])
            oldest = int(rows[0][0])
            since: int | None = self._trimmed.get(lane, first)
            steps = 0
            while since is not None:
                since = await _trim_some(connection, since, oldest)
                steps += 1
            self._trimmed[lane] = oldest
            await self._round.go_on(partial(_drop_unused, connection), trimmed=steps)
        return oldest

    def forget_trims(self) -> None:
        """The database is in an earlier state: rows that were trimmed may be there again."""
        self._trimmed.clear()
        self._round = Round()

    async def tidy(self) -> None:
        if not self._round.is_over:
            async with self._pool.taken() as connection:
                await self._round.go_on(partial(_drop_unused, connection), trimmed=TIDIED)


async def _oldest(connection: Connection, first: int, before: int) -> int | None:
    """The start of the row that holds an offset, or where the lane ends; None for an empty lane."""
    (holding,) = await ask(connection, [(Q.row_holding, (before, first))])
    start, count = holding[0] if holding else (first - 1, 0)
    if before < start + count:
        return int(start)
    (behind,) = await ask(connection, [(Q.row_behind, (start, first + LANE_SIZE))])
    if behind:
        return int(behind[0][0])
    return int(start + count) if holding else None


async def _trim_some(connection: Connection, since: int, oldest: int) -> int | None:
    """One step: remove or retain rows; where the next step begins, None after the last."""
    (rows,) = await ask(connection, [(Q.rows_to_trim, (since, oldest, STEP))])
    for start, first_seq, last_seq, has_packs, size in rows:
        if not await _dropped(connection, start, first_seq, last_seq, has_packs=has_packs, single_bytes=size):
            await ask(connection, [(Q.retain, (start,))])
    return rows[-1][0] + 1 if len(rows) == STEP else None


async def _drop_unused(connection: Connection, after: int) -> tuple[int | None, int]:
    """One step through the rows that are retained: remove those in which nothing waits any more.

    Where fewer messages wait than there are bodies, the others are blanked: what was removed is then gone for good, as
    soon as PostgreSQL has vacuumed the table. Returns where the next step begins, None after the last, and how many
    rows have gone.
    """
    (rows,) = await ask(connection, [(Q.retained_rows, (after, STEP))])
    removed = 0
    for start, first_seq, last_seq, has_packs, size, has_unused in rows:
        is_gone = await _dropped(connection, start, first_seq, last_seq, has_packs=has_packs, single_bytes=size)
        removed += is_gone
        if has_unused and not is_gone:
            await _blank(connection, start, first_seq, last_seq)
    return rows[-1][0] if len(rows) == STEP else None, removed


async def _blank(connection: Connection, start: int, first: int, last: int) -> None:
    """Rewrite a row without the bodies of messages that are gone. In one moment: a message that leaves its pack
    meanwhile is found in one place or the other."""
    where = (first, last, start)
    asked: list[Step] = [("BEGIN ISOLATION LEVEL REPEATABLE READ", ()), (Q.waiting_packs, where)]
    asked += [(Q.waiting_positions, where), (Q.journal_rows, (numbers([start]),))]
    _, packs, singles, rows = await ask(connection, asked)
    positions = {position for (position,) in singles}
    for pack in to_packs(packs):
        positions.update(pack.position + index for index in pack.indexes())
    steps: list[Step] = []
    for _, crc, events in rows:
        if is_intact(events, crc):  # else the next receive sets its messages aside
            fewer, kept = keep_bodies(events, positions)
            steps = [(Q.rewrite_journal, (crc32(fewer), fewer, start)), (Q.keep_bodies, (kept, start))]
    try:
        await ask(connection, [*steps, ("COMMIT", ())])
    except psycopg.errors.SerializationFailure:  # messages that point to it have just come from another shard
        await connection.execute("ROLLBACK")


async def _dropped(
    connection: Connection, start: int, first: int | None, last: int | None, *, has_packs: bool, single_bytes: int
) -> bool:
    """Remove a row that nothing points to, after its last single messages have got their bodies; whether it is gone."""
    if not is_copied(has_packs=has_packs, single_bytes=single_bytes):
        return False
    if single_bytes:
        async with connection.transaction():
            singles = to_singles((await ask(connection, [(Q.pointing_singles, (first, last, start))]))[0])

            try:
                contents = await Facts(partial(ask, connection), space=0, locks=False).content(Content((), singles))
            except Damaged:
                return False
            bodies = [contents.body_of(single) for single in singles]
            seqs = numbers(single.seq for single in singles)
            await ask(connection, [
                (Q.insert_payloads, (seqs, blobs(bodies), numbers(map(crc32, bodies)))), (Q.copied_out, (seqs,)),
            ])  # fmt: skip
    _, gone = await ask(connection, [(Q.lock_row, (start,)), (Q.drop_unused_row, (start,))])
    return bool(gone)
