"""Answers to what decisions need to know."""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from couriermq.core.lifecycle import needs
from couriermq.core.lifecycle.needs import Found
from couriermq.core.lifecycle.rows import Contents, Pack, Single
from couriermq.core.lifecycle.tally import NEVER
from couriermq.core.model import Job, Publication, State
from couriermq.storage.sqlite.checksums import Damaged, sound
from couriermq.storage.sqlite.contents import Cache, load_contents
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

    def pointing_to(self, need: needs.PointingTo) -> Found:
        packs = self._execute(Q.packs_of_row, (need.start,))
        singles = self._execute(Q.singles_of_row, (need.start, need.seq))
        return Found([to_pack(row) for row in packs], [to_single(row) for row in singles])

    def has_copies(self, need: needs.HasCopies) -> bool:
        return self._execute(Q.has_copies, (need.origin,)).fetchone() is not None

    def dedup(self, need: needs.Dedup) -> dict[tuple[int, str], tuple[int, int, str]]:
        found = ((key, self._execute(Q.read_dedup, key).fetchone()) for key in need.keys)
        return {key: row for key, row in found if row is not None}

    # -- groups -----------------------------------------------------------------------------------------------

    def free_groups(self, need: needs.FreeGroups) -> list[str]:
        where = {"queue": need.queue, "now": need.now, "limit": need.limit}
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

    def publication_of(self, need: needs.PublicationOf) -> Publication | None:
        row = self._execute(Q.read_publication, (need.target, need.series)).fetchone()
        if row is None:
            return None
        series, number, count, published_at = sound(f"the publication of {need.series}", row)
        return Publication(series=series, number=number, count=count, published_at=published_at)

    def stage_of(self, need: needs.StageOf) -> tuple[int, set[int]] | None:
        chunks = self._execute(Q.stage_chunks, {"target": need.target, "name": need.name}).fetchall()
        if not chunks:
            return None
        if not all(is_sound for _, _, is_sound in chunks):
            raise Damaged(f"stage {need.name}")
        return sum(count for count, _, _ in chunks), set().union(*(_keys(blob) for _, blob, _ in chunks))

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
    needs.PointingTo: Facts.pointing_to,
    needs.HasCopies: Facts.has_copies,
    needs.Dedup: Facts.dedup,
    needs.FreeGroups: Facts.free_groups,
    needs.InGroup: Facts.in_group,
    needs.GroupHead: Facts.group_head,
    needs.JobOf: Facts.job_of,
    needs.ClaimOf: Facts.claim_of,
    needs.LastClaim: Facts.last_claim,
    needs.DecidedClaim: Facts.decided_claim,
    needs.PublicationOf: Facts.publication_of,
    needs.StageOf: Facts.stage_of,
}
