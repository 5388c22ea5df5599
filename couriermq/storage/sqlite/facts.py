"""Answers to what decisions need to know."""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from couriermq.core.lifecycle import needs
from couriermq.core.lifecycle.needs import Found, jobs_of
from couriermq.core.lifecycle.rows import Contents, Pack, Single
from couriermq.core.lifecycle.tally import NEVER, Figures
from couriermq.core.model import Job, Publication, State
from couriermq.storage.contents import Cache, Damaged
from couriermq.storage.sqlite.checksums import sound
from couriermq.storage.sqlite.contents import load_contents
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import Row, to_pack, to_single

SIZES = (1, 10, 100, 1_000)
NAMED = {size: Q.named_singles.replace(":seqs", ",".join("?" * size)) for size in SIZES}
"""The same query for some round numbers of seqs, so that SQLite compiles only these."""

_keys = msgspec.msgpack.Decoder(set[int]).decode
_seqs = msgspec.msgpack.Decoder(list[int]).decode


class Facts:
    """Loads rows through one connection."""

    def __init__(self, db: sqlite3.Connection, cache: Cache | None = None) -> None:
        self._execute = db.execute
        self._db = db
        self._cache = cache

    def load(self, need: Any) -> Any:
        return _LOADERS[type(need)](self, need)

    # -- messages ---------------------------------------------------------------------------------------------

    def ready(self, need: needs.Ready) -> Found:
        by = NEVER if need.by is None else need.by
        packs, count = _until(self._execute(Q.ready_packs, (need.queue, by)), need.limit)
        if count >= need.limit:
            by = min(by, packs[-1].due_at)  # later ones are behind what the packs have
        singles = self._execute(Q.ready_singles, (need.queue, by, need.limit))
        return Found(packs, [to_single(row) for row in singles])

    def named(self, need: needs.Named) -> Found:
        packs: list[Pack] = []
        rest: list[int] = []
        pack: Pack | None = None
        is_end = False
        for seq in sorted(set(need.seqs)):
            if not is_end and (pack is None or seq > pack.last):
                row = self._execute(Q.pack_of, (seq,)).fetchone()
                pack, is_end = (to_pack(row), False) if row else (None, True)
            if pack is None or not pack.has(seq):
                rest.append(seq)
            elif (need.queue is None or pack.queue == need.queue) and (not packs or packs[-1] is not pack):
                packs.append(pack)
        return Found(packs, [s for s in self._singles(rest) if need.queue is None or s.queue == need.queue])

    def _singles(self, seqs: list[int]) -> Iterator[Single]:
        for first in range(0, len(seqs), SIZES[-1]):
            some = seqs[first : first + SIZES[-1]]
            size = next(size for size in SIZES if size >= len(some))
            yield from map(to_single, self._execute(NAMED[size], (*some, *[some[-1]] * (size - len(some)))))

    def ended(self, need: needs.Ended) -> Found:
        where = (need.queue, need.state, need.now)
        packs, _ = _until(self._execute(Q.ended_packs, where), need.limit)
        singles = self._execute(Q.ended_singles, (*where, need.limit))
        return Found(packs, [to_single(row) for row in singles])

    def aged(self, need: needs.Aged) -> Found:
        packs, _ = _until(self._execute(Q.aged_packs, (need.queue, need.until)), need.limit)
        singles = self._execute(Q.aged_singles, (need.queue, need.until, need.limit)).fetchall()
        singles += self._execute(Q.aged_own, (need.queue, need.now, need.limit)).fetchall()
        return Found(packs, [to_single(row) for row in singles])

    def in_order(self, need: needs.InOrder) -> Found:
        where = {"queue": need.queue, "entered_at": need.entered_at, "seq": need.seq}
        packs: list[Pack] = []
        count = 0
        for row in self._execute(Q.page_packs, where):
            pack = to_pack(row)
            packs.append(pack)
            is_behind = pack.entered_at > need.entered_at or pack.first > need.seq
            count += pack.remaining if is_behind else sum(pack.first + i > need.seq for i in pack.indexes())
            if count >= need.limit:
                break
        singles = self._execute(Q.page_singles, {**where, "limit": need.limit})
        return Found(packs, [to_single(row) for row in singles])

    def waiting_again(self, need: needs.WaitingAgain) -> Found:
        packs: list[Pack] = []
        count = 0
        for row in self._execute(Q.packs_waiting_again, (need.queue, need.due_at)):
            pack = to_pack(row)
            packs.append(pack)
            count += pack.remaining if pack.due_at < need.due_at else sum(seq < need.seq for seq in pack.seqs())
            if count >= need.limit:
                break
        singles = self._execute(Q.singles_waiting_again, (need.queue, need.due_at, need.seq, need.limit))
        return Found(packs, [to_single(row) for row in singles])

    def given(self, need: needs.Given) -> list[Single]:
        rows = self._execute(Q.given_singles, (need.queue, need.id, need.after, need.limit))
        return [to_single(row) for row in rows]

    def content(self, need: needs.Content) -> Contents:
        return load_contents(self._db, need.packs, need.singles, self._cache, bodies=need.bodies)

    def next_due(self, need: needs.NextDue) -> tuple[int | None, int | None, int | None]:
        key = need.queue
        states = (State.DELAYED, State.LEASED)
        queries = (Q.next_pack_due, Q.next_message_due)
        ends = [self._one(query, key, int(state)) for state in states for query in queries]
        oldest = [self._one(Q.oldest_pack, key), self._one(Q.oldest_single, key)]
        return _least(ends), self._one(Q.next_own_end, key), _least(oldest)

    def exclusive(self, need: needs.Exclusive) -> None:
        """Nobody else is there to change anything."""

    def totals(self, need: needs.Totals) -> Figures:
        """The tally of the one writer has it all."""
        return 0, 0, 0, 0, 0, 0, 0

    def pointing_to(self, need: needs.PointingTo) -> Found:
        packs = self._execute(Q.packs_of_row, (need.start,))
        singles = self._execute(Q.singles_of_row, (need.start, need.seq))
        return Found([to_pack(row) for row in packs], [to_single(row) for row in singles])

    def copied(self, need: needs.Copied) -> set[int]:
        return {origin for origin in need.origins if self._execute(Q.has_copies, (origin,)).fetchone() is not None}

    def dedup(self, need: needs.Dedup) -> dict[tuple[int, str], tuple[int, int, str]]:
        found = ((key, self._execute(Q.read_dedup, key).fetchone()) for key in need.keys)
        return {key: row for key, row in found if row is not None}

    # -- groups -----------------------------------------------------------------------------------------------

    def free_groups(self, need: needs.FreeGroups) -> list[str]:
        by = NEVER if need.by is None else need.by
        where = {"queue": need.queue, "now": need.now, "by": by, "limit": need.limit}
        return [group for (group,) in self._execute(Q.available_groups, where)]

    def in_group(self, need: needs.InGroup) -> list[Single]:
        return [to_single(row) for row in self._execute(Q.group_singles, (need.queue, need.group, need.limit))]

    def group_head(self, need: needs.GroupHead) -> tuple[int, int] | None:
        found: tuple[int, int] | None = self._execute(Q.group_head, (need.queue, need.group)).fetchone()
        return found

    # -- jobs and stages --------------------------------------------------------------------------------------

    def job_of(self, need: needs.JobOf) -> Job | None:
        row = self._execute(Q.read_job, (need.queue, need.name)).fetchone()
        if row is None:
            return None
        name, epoch, done, opened_at = sound(f"job {need.name}", row)
        return Job(name=name, epoch=epoch, done=done, opened_at=opened_at)

    def claim_of(self, need: needs.ClaimOf) -> needs.ClaimRow | None:
        row = self._execute(Q.read_claim, (need.queue, need.job, need.number)).fetchone()
        return needs.ClaimRow(*sound(f"claim {need.number} of job {need.job}", row)) if row else None

    def last_claim(self, need: needs.LastClaim) -> int:
        return self._one(Q.last_claim, need.queue, need.job) or 0

    def decided_claim(self, need: needs.DecidedClaim) -> tuple[str, int, int, tuple[int, list[int]] | None] | None:
        claim = self._execute(Q.decided_claim, (need.queue,)).fetchone()
        if claim is None:
            return None
        job, number, fate = sound("a claim", claim)
        part = self._execute(Q.first_claim_part, (need.queue, job, number)).fetchone()
        if part is None:
            return job, number, fate, None
        first, seqs = sound(f"claim {number} of job {job}", part)
        return job, number, fate, (first, _seqs(seqs))

    def claim_part(self, need: needs.ClaimPart) -> tuple[int, list[int]] | None:
        row = self._execute(Q.claim_part, (need.queue, need.job, need.number, need.position)).fetchone()
        if row is None:
            return None
        first, count, seqs = sound(f"claim {need.number} of job {need.job}", row)
        return (first, _seqs(seqs)) if first + count > need.position else None

    def decided_queues(self, need: needs.DecidedQueues) -> list[int]:
        return [key for (key,) in self._execute(Q.decided_queues)]

    def jobs_of(self, need: needs.JobsOf) -> list[Job]:
        jobs = self._execute(Q.read_jobs, (need.queue,)).fetchall()
        claims = self._execute(Q.held_claims, (need.queue,)).fetchall()
        return jobs_of([sound("a job", row) for row in jobs], [sound("a claim", row) for row in claims])

    def publication_of(self, need: needs.PublicationOf) -> Publication | None:
        row = self._execute(Q.read_publication, (need.target, need.series)).fetchone()
        if row is None:
            return None
        series, number, count, published_at = sound(f"the publication of {need.series}", row)
        return Publication(series=series, number=number, count=count, published_at=published_at)

    def stage_of(self, need: needs.StageOf) -> needs.HeldStage | None:
        chunks = self._execute(Q.stage_chunks, {"target": need.target, "name": need.name}).fetchall()
        if not chunks:
            return None
        parts, counts, keys, instants, are_sound = zip(*chunks, strict=True)
        if not all(are_sound):
            raise Damaged(f"stage {need.name}")
        return needs.HeldStage(sum(counts), len(set(parts)), min(instants), set().union(*map(_keys, keys)))

    def next_chunk(self, need: needs.NextChunk) -> needs.StagedChunk | None:
        row = self._execute(Q.next_chunk, (need.target, need.name)).fetchone()
        if row is None:
            return None
        part, number, count, parcels, is_sound = row
        return needs.StagedChunk(part, number, count, parcels if is_sound else None)

    def next_landing(self, need: needs.NextLanding) -> Row | None:
        row = self._execute(Q.next_landing).fetchone()
        return sound("a publication that is on its way", row) if row else None

    def staged_for(self, need: needs.StagedFor) -> list[Row]:
        return self._execute(Q.staged, (msgspec.json.encode(need.targets).decode(),)).fetchall()

    def old_stages(self, need: needs.OldStages) -> bool:
        return bool(self._one(Q.old_stages, need.staged_until, need.published_until))

    def _one(self, query: str, *values: object) -> int | None:
        found: int | None = self._execute(query, values).fetchone()[0]
        return found


def _until(rows: Iterator[Row], limit: int) -> tuple[list[Pack], int]:
    """Packs up to the one with which there are `limit` messages, and how many there are."""
    packs: list[Pack] = []
    count = 0
    for row in rows:
        pack = to_pack(row)
        packs.append(pack)
        count += pack.remaining
        if count >= limit:
            break
    return packs, count


def _least(instants: list[int | None]) -> int | None:
    return min((at for at in instants if at is not None), default=None)


_LOADERS: dict[type, Callable[[Facts, Any], Any]] = {
    needs.Ready: Facts.ready,
    needs.Named: Facts.named,
    needs.Ended: Facts.ended,
    needs.Aged: Facts.aged,
    needs.InOrder: Facts.in_order,
    needs.WaitingAgain: Facts.waiting_again,
    needs.Given: Facts.given,
    needs.Content: Facts.content,
    needs.NextDue: Facts.next_due,
    needs.Exclusive: Facts.exclusive,
    needs.Totals: Facts.totals,
    needs.PointingTo: Facts.pointing_to,
    needs.Copied: Facts.copied,
    needs.Dedup: Facts.dedup,
    needs.FreeGroups: Facts.free_groups,
    needs.InGroup: Facts.in_group,
    needs.GroupHead: Facts.group_head,
    needs.JobOf: Facts.job_of,
    needs.ClaimOf: Facts.claim_of,
    needs.LastClaim: Facts.last_claim,
    needs.DecidedClaim: Facts.decided_claim,
    needs.ClaimPart: Facts.claim_part,
    needs.DecidedQueues: Facts.decided_queues,
    needs.JobsOf: Facts.jobs_of,
    needs.PublicationOf: Facts.publication_of,
    needs.StageOf: Facts.stage_of,
    needs.NextChunk: Facts.next_chunk,
    needs.NextLanding: Facts.next_landing,
    needs.StagedFor: Facts.staged_for,
    needs.OldStages: Facts.old_stages,
}
