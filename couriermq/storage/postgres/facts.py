"""Answers to what decisions need to know: which rows are asked for, and what they are to the core."""

import heapq
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from couriermq.core.lifecycle import needs
from couriermq.core.lifecycle.members import holder
from couriermq.core.lifecycle.needs import Found
from couriermq.core.lifecycle.rows import ROW_BYTES, ROW_EVENTS, Content, Contents, Pack, Single
from couriermq.core.lifecycle.tally import NEVER, Figures
from couriermq.core.limits import COMMIT_BYTES, Room
from couriermq.core.model import Counters, Job, Publication, State
from couriermq.storage.contents import Cache, checked_body, content_of, is_intact, kept
from couriermq.storage.postgres.connection import Rows, Step, blobs, numbers
from couriermq.storage.queries import load_queries

if TYPE_CHECKING:
    from couriermq.storage.postgres.notifications import Marks

PACK = (
    "last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start, position, turn, gone"
)
SINGLE = (
    "seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id, "
    "content_type, attributes, grp, trace, origin, death, start, position, turn"
)
Q = load_queries(__package__, {"pack": PACK, "single": SINGLE})

_GONE = len(PACK.split(", ")) - 1
_keys = msgspec.msgpack.Decoder(set[int]).decode
_seqs = msgspec.msgpack.Decoder(list[int]).decode

Ask = Callable[[Sequence[Step]], Awaitable[list[Rows]]]
Plan = tuple[list[Step], Callable[[list[Rows]], Any]]
"""What to ask in one round trip, and what the rows come to."""


def to_pack(row: Sequence[Any]) -> Pack:
    pack = Pack(*row)
    gone: bytes | None = row[_GONE]
    pack.gone = int.from_bytes(gone, "little") if gone else 0
    return pack


def to_single(row: Sequence[Any]) -> Single:
    single = Single(*row)
    single.id, single.content_type = row[12].decode(), row[13].decode()
    if row[15] is not None:
        single.group = row[15].decode()
    if row[16] is not None:
        single.trace = row[16].decode()
    return single


def to_packs(rows: Rows) -> list[Pack]:
    return [to_pack(row) for row in rows]


def to_singles(rows: Rows) -> list[Single]:
    return [to_single(row) for row in rows]


class Facts:
    """Loads rows through `ask`; with `locks` they stay as they are until the transaction ends."""

    def __init__(
        self, ask: Ask, *, space: int, cache: Cache | None = None, marks: "Marks | None" = None, locks: bool = True
    ) -> None:
        self._ask = ask
        self._space = space
        self._cache = cache
        self._marks = marks
        self._lock, self._skip = (" FOR UPDATE", " FOR UPDATE SKIP LOCKED") if locks else ("", "")
        self._locks = locks
        self._locked: set[int] = set()
        self.contents = Cache()
        """Journal rows that this transaction adds, as far as there is room; the others can be read again."""
        self.added: set[int] = set()
        """The starts of all of them. What is read of them is nobody else's before the commit."""
        self.ready_rows: dict[int, list[Pack | Single]] = {}
        """By queue, what was ready when it was locked; receivers pass it over until this transaction ends."""
        self.emptied: set[int] = set()
        """Queues of which no more was ready."""

    async def load(self, need: Any) -> Any:
        special = _SPECIAL.get(type(need))
        if special is not None:
            answer = await special(self, need)
        else:
            steps, build = self.plan(need)
            answer = build(await self._ask(steps))
        if self._locks and type(answer) is Found:
            self._note_ready(answer)
        return answer

    def _note_ready(self, found: Found) -> None:
        rows: list[Pack | Single] = [*found.packs, *found.singles]
        for row in rows:
            if row.state == State.READY:
                self.ready_rows.setdefault(row.queue, []).append(row)

    def plan(self, need: Any) -> Plan:
        return _PLANS[type(need)](self, need)

    # -- messages ---------------------------------------------------------------------------------------------

    async def ready(self, need: needs.Ready) -> Found:
        scan = partial(self._ready_since, need)
        if self._marks is None or need.by is not None:
            return await scan(0)
        found = await self._marks.of(need.queue).scan(scan, need.limit)
        if found.count < need.limit:
            self.emptied.add(need.queue)
        return found

    async def _ready_since(self, need: needs.Ready, since: int) -> Found:
        where = (need.queue, since, NEVER if need.by is None else need.by, need.limit)
        return _found(await self._ask([(Q.ready_packs, where), (Q.ready_singles + self._skip, where)]))

    def named_rows(self, seqs: Iterable[int]) -> list[Step]:
        some = numbers(sorted(set(seqs)))
        return [(Q.named_packs + self._lock, (some,)), (Q.named_singles + self._lock, (some,))]

    async def named(self, need: needs.Named) -> Found:
        if not need.seqs:
            return Found([], [])
        return await self.named_from(need, await self._ask(self.named_rows(need.seqs)))

    async def named_from(self, need: needs.Named, rows: list[Rows]) -> Found:
        """What the rows say; those that are missing are asked for again, as others may have split their packs."""
        found, missing = _chosen(need, rows)
        if self._locks and missing:
            more, _ = _chosen(need, await self._ask(self.named_rows(missing)))
            known = {pack.last for pack in found.packs}
            found.packs += [pack for pack in more.packs if pack.last not in known]
            found.singles += more.singles
        return found

    def ended(self, need: needs.Ended) -> Plan:
        where = (need.queue, need.state, need.now, need.limit)
        packs = (*where, need.limit, need.state, need.now)
        steps: list[Step] = [(Q.ended_packs + self._skip, packs), (Q.ended_singles + self._skip, where)]
        return steps, _found

    def aged(self, need: needs.Aged) -> Plan:
        packs = (need.queue, need.until, need.limit, need.limit)
        steps: list[Step] = [
            (Q.aged_packs + self._skip, packs),
            (Q.aged_singles + self._skip, (need.queue, need.until, need.limit)),
            (Q.aged_own + self._skip, (need.queue, need.now, need.limit)),
        ]
        return steps, _found

    async def in_order(self, need: needs.InOrder) -> Found:
        """Others may split or remove packs while this one waits for them: they are asked for again, until all that are
        there are locked."""
        where = (need.queue, need.entered_at, need.seq, need.limit)
        values = (*where[:3], need.limit + 1, need.limit + ROW_EVENTS)  # some of the first pack may be before the place
        steps: list[Step] = [
            (Q.page_packs, values), (Q.page_singles + self._lock, where), (Q.page_own + self._lock, where),
        ]  # fmt: skip
        if self._locks:
            steps.insert(0, (Q.page_packs + self._lock, values))
        held: set[int] = set()
        while True:
            *locked, packed, alone, own = await self._ask(steps)
            held.update(row[0] for rows in locked for row in rows)
            if not self._locks or all(row[0] in held for row in packed):
                singles = heapq.merge(to_singles(alone), to_singles(own), key=lambda s: (s.entered_at, s.seq))
                return Found(to_packs(packed), list(singles)[: need.limit])

    def waiting_again(self, need: needs.WaitingAgain) -> Plan:
        steps: list[Step] = [
            (Q.packs_waiting_again + self._lock, (need.queue, need.due_at, need.limit + 1)),
            (Q.singles_waiting_again + self._lock, (need.queue, need.due_at, need.seq, need.limit)),
        ]
        return steps, _found

    def given(self, need: needs.Given) -> Plan:
        id_ = need.id.encode()
        step = (Q.given_singles + self._lock, (need.queue, id_, id_, need.after, need.limit))
        return [step], lambda rows: to_singles(rows[0])

    def pointing_to(self, need: needs.PointingTo) -> Plan:
        steps: list[Step] = [
            (Q.packs_of_row + self._lock, (need.start,)),
            (Q.singles_of_row + self._lock, (need.start, need.seq)),
        ]
        return steps, _found

    def next_due(self, need: needs.NextDue) -> Plan:
        return [(Q.next_due, (need.queue, need.now, need.until))], lambda rows: rows[0][0]

    def copied(self, need: needs.Copied) -> Plan:
        return [(Q.copied, (numbers(need.origins),))], lambda rows: {seq for (seq,) in rows[0]}

    def dedup(self, need: needs.Dedup) -> Plan:
        ids = {(key, name.encode()): (key, name) for key, name in need.keys}
        step = (Q.read_dedup, (numbers(key for key, _ in ids), blobs(name for _, name in ids)))

        def build(rows: list[Rows]) -> dict[tuple[int, str], tuple[int, int, str]]:
            return {ids[key, bytes(name)]: (until, seq, bytes(id_).decode()) for key, name, until, seq, id_ in rows[0]}

        return [step], build

    # -- contents ---------------------------------------------------------------------------------------------

    async def content(self, need: needs.Content) -> Contents:
        """Raises Damaged. Without bodies only those are in memory that the cache keeps anyway."""
        starts = {pack.start for pack in need.packs}
        whole = {single.start for single in need.singles if single.start is not None}
        rows = {start: content for start in starts | whole if (content := self._kept(start)) is not None}
        missing = sorted((starts | whole) - rows.keys())
        seqs = [single.seq for single in need.singles if single.start is None]
        *before, last = [missing] if need.bodies else _portions(need.packs, missing)
        for some in before:
            (found,) = await self._ask([(Q.journal_rows, (numbers(some),))])
            rows |= {start: kept(*of, bodies=start in whole) for start, of in self._checked(some, found)}
        steps: list[Step] = []
        if last:
            steps.append((Q.journal_rows, (numbers(last),)))
        if seqs:
            steps.append((Q.payloads, (numbers(seqs),)))
        answers = await self._ask(steps) if steps else []
        if last:
            for start, of in self._checked(last, answers[0]):
                rows[start] = kept(*of, bodies=need.bodies or start in whole)
        bodies = {seq: (body, crc) for seq, body, crc in answers[-1]} if seqs else {}
        return Contents(rows, {seq: checked_body(seq, bodies.get(seq)) for seq in seqs})

    def _checked(self, starts: Sequence[int], found: Rows) -> Iterator[tuple[int, tuple[Cache | None, int, Content]]]:
        """The contents of rows that were read, and the cache that may keep them; raises Damaged."""
        sound = {start: events for start, crc, events in found if is_intact(events, crc)}
        for start in starts:
            content = content_of(start, sound.pop(start, None))
            # A blanked row may get bodies back from another shard.
            cache = None if content.is_blanked or start in self.added else self._cache
            yield start, (cache, start, content)

    def _kept(self, start: int) -> Content | None:
        found = self.contents.get(start)
        return self._cache.get(start) if found is None and self._cache is not None else found

    # -- locks and numbers ------------------------------------------------------------------------------------

    async def exclusive(self, need: needs.Exclusive) -> None:
        missing = sorted(set(need.queues) - self._locked)
        if missing:
            await self._ask([(Q.lock_queues, (self._space, numbers(missing)))])
            self._locked.update(missing)

    async def totals(self, need: needs.Totals) -> Figures:
        lock = (Q.lock_queues, (self._space, numbers([need.queue])))
        _, (figures,) = await self._ask([lock, (Q.totals, (need.queue,))])
        return figures

    # -- groups -----------------------------------------------------------------------------------------------

    def free_groups(self, need: needs.FreeGroups) -> Plan:
        by = NEVER if need.by is None else need.by
        ahead = (need.queue, need.now, by, need.now, need.limit)
        step = (Q.available_groups, (need.queue, need.now, need.limit, *ahead, need.limit))
        return [step], lambda rows: [bytes(group).decode() for (group,) in rows[0]]

    def in_group(self, need: needs.InGroup) -> Plan:
        group = need.group.encode()
        step = (Q.group_singles + self._lock, (need.queue, group, group, need.limit))
        return [step], lambda rows: to_singles(rows[0])

    def group_head(self, need: needs.GroupHead) -> Plan:
        group = need.group.encode()
        step = (Q.group_head, (need.queue, group, group))
        return [step], lambda rows: rows[0][0] if rows[0] else None

    # -- jobs and stages --------------------------------------------------------------------------------------

    def job_of(self, need: needs.JobOf) -> Plan:
        """One that is not there yet is locked, too: two must not begin the same epoch."""
        lock: list[Step] = [(Q.lock_queues, (self._space, numbers([need.queue])))] if self._locks else []

        def build(rows: list[Rows]) -> Job | None:
            return next(iter(needs.jobs_of(rows[-1], ())), None)

        return [*lock, (Q.read_job, (need.queue, need.name))], build

    def claim_of(self, need: needs.ClaimOf) -> Plan:
        step = (Q.read_claim + self._lock, (need.queue, need.job, need.number))
        return [step], lambda rows: needs.ClaimRow(*rows[0][0]) if rows[0] else None

    def last_claim(self, need: needs.LastClaim) -> Plan:
        return [(Q.last_claim, (need.queue, need.job))], lambda rows: rows[0][0][0] or 0

    async def decided_claim(self, need: needs.DecidedClaim) -> tuple[Any, ...] | None:
        (claims,) = await self._ask([(Q.decided_claim + self._lock, (need.queue,))])
        if not claims:
            return None
        job, number, fate = claims[0]
        (parts,) = await self._ask([(Q.first_claim_part, (need.queue, job, number))])
        return job, number, fate, (parts[0][0], _seqs(parts[0][1])) if parts else None

    def publication_of(self, need: needs.PublicationOf) -> Plan:
        where = (need.target, need.series)
        steps: list[Step] = [(Q.begin_publication, where)] if self._locks else []

        def build(rows: list[Rows]) -> Publication | None:
            for series, number, count, published_at in rows[-1]:
                if number >= 0:
                    return Publication(series=series, number=number, count=count, published_at=published_at)
            return None

        return [*steps, (Q.read_publication + self._lock, where)], build

    def stage_of(self, need: needs.StageOf) -> Plan:
        def build(rows: list[Rows]) -> needs.HeldStage | None:
            if not rows[0]:
                return None
            parts, counts, keys, instants = zip(*rows[0], strict=True)
            return needs.HeldStage(sum(counts), len(set(parts)), min(instants), set().union(*map(_keys, keys)))

        return [(Q.stage_chunks + self._lock, (need.target, need.name))], build

    def claim_part(self, need: needs.ClaimPart) -> Plan:
        def build(rows: list[Rows]) -> tuple[int, list[int]] | None:
            row = rows[0][0] if rows[0] else None
            return (row[0], _seqs(row[2])) if row and row[0] + row[1] > need.position else None

        return [(Q.claim_part, (need.queue, need.job, need.number, need.position))], build

    def decided_queues(self, need: needs.DecidedQueues) -> Plan:
        return [(Q.decided_queues, ())], lambda rows: [key for (key,) in rows[0]]

    def jobs_of(self, need: needs.JobsOf) -> Plan:
        steps: list[Step] = [(Q.read_jobs, (need.queue,)), (Q.held_claims, (need.queue,))]
        return steps, lambda rows: needs.jobs_of(rows[0], rows[1])

    def next_chunk(self, need: needs.NextChunk) -> Plan:
        where = (need.target, need.name)
        return [(Q.next_chunk, where)], lambda rows: needs.StagedChunk(*rows[0][0]) if rows[0] else None

    def staged_for(self, need: needs.StagedFor) -> Plan:
        return [(Q.staged, (list(need.targets),))], lambda rows: rows[0]

    def old_stages(self, need: needs.OldStages) -> Plan:
        return [(Q.old_stages, (need.staged_until, need.published_until))], lambda rows: rows[0][0][0]


def _found(rows: list[Rows]) -> Found:
    return Found(to_packs(rows[0]), [single for some in rows[1:] for single in to_singles(some)])


def _chosen(need: needs.Named, rows: list[Rows]) -> tuple[Found, list[int]]:
    """Of the rows that were found those that hold the seqs, in the queue that is meant; and the seqs without a row."""
    packs = [pack for pack in to_packs(rows[0]) if need.queue is None or pack.queue == need.queue]
    singles = [single for single in to_singles(rows[1]) if need.queue is None or single.queue == need.queue]
    alone = {single.seq for single in singles}
    held: dict[int, Pack] = {}
    missing: list[int] = []
    for seq in sorted(need.seqs):
        pack = holder(packs, seq)
        if pack is not None:
            held[pack.last] = pack
        elif seq not in alone:
            missing.append(seq)
    return Found(list(held.values()), singles), missing


_PLANS: dict[type, Callable[[Facts, Any], Plan]] = {
    needs.Ended: Facts.ended,
    needs.Aged: Facts.aged,
    needs.WaitingAgain: Facts.waiting_again,
    needs.Given: Facts.given,
    needs.NextDue: Facts.next_due,
    needs.PointingTo: Facts.pointing_to,
    needs.Copied: Facts.copied,
    needs.Dedup: Facts.dedup,
    needs.FreeGroups: Facts.free_groups,
    needs.InGroup: Facts.in_group,
    needs.GroupHead: Facts.group_head,
    needs.JobOf: Facts.job_of,
    needs.ClaimOf: Facts.claim_of,
    needs.LastClaim: Facts.last_claim,
    needs.PublicationOf: Facts.publication_of,
    needs.StageOf: Facts.stage_of,
    needs.ClaimPart: Facts.claim_part,
    needs.DecidedQueues: Facts.decided_queues,
    needs.JobsOf: Facts.jobs_of,
    needs.NextChunk: Facts.next_chunk,
    needs.StagedFor: Facts.staged_for,
    needs.OldStages: Facts.old_stages,
}
_SPECIAL: dict[type, Callable[[Facts, Any], Awaitable[Any]]] = {
    needs.Ready: Facts.ready,
    needs.Named: Facts.named,
    needs.InOrder: Facts.in_order,
    needs.Content: Facts.content,
    needs.Totals: Facts.totals,
    needs.Exclusive: Facts.exclusive,
    needs.DecidedClaim: Facts.decided_claim,
}


def to_counters(
    ready: int, delayed: int, leased: int, size: int, sent: int, acked: int, dead: int, oldest_at: int | None
) -> Counters:
    return Counters(
        ready_count=ready,
        delayed_count=delayed,
        leased_count=leased,
        byte_count=size,
        oldest_at=oldest_at,
        sent_count=sent,
        acked_count=acked,
        dead_count=dead,
    )


def _portions(packs: Sequence[Pack], starts: Sequence[int]) -> list[list[int]]:
    """Parts of the rows that fit into memory, the last one perhaps empty: one of several messages has ROW_BYTES."""
    weights = dict.fromkeys(starts, ROW_BYTES)
    for pack in packs:
        if pack.start in weights:
            weights[pack.start] = max(weights[pack.start], pack.bytes)
    portions: list[list[int]] = [[]]
    room = Room(COMMIT_BYTES)
    for start in starts:
        if not room.takes(weights[start]):
            portions.append([])
            room = Room(COMMIT_BYTES)
            room.takes(weights[start])
        portions[-1].append(start)
    return portions
