"""Messages that a job holds without end: claimed, read, acked and freed in steps that others can come between.

A claim is made of parts, one a transaction, and is answered for when it is complete; its end is decided in one
transaction and then carried out part by part. Both go on where they were after a crash.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from couriermq.core.errors import ClaimGone, Fenced, JobNotFound, QueuePaused
from couriermq.core.events import EventKind
from couriermq.core.limits import Room
from couriermq.core.model import MINUTE, UNENDING, Claim, Fate, Job, Json, Kind, Message, Queue, Slice, State
from couriermq.storage.base import Directory
from couriermq.storage.sqlite.leasing import Desk, take_groups
from couriermq.storage.sqlite.ledger import Tx
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import encode, to_message

if TYPE_CHECKING:
    import sqlite3
    import threading

T = TypeVar("T")

PART = 1_000
"""Messages of one part: as many as one step takes, about 10 ms of the event loop."""

_seqs = msgspec.msgpack.Decoder(list[int]).decode


class Claims:
    """What the store does for jobs."""

    if TYPE_CHECKING:
        _db: sqlite3.Connection
        _reader: sqlite3.Connection
        _reading: threading.Lock
        _directory: Directory

        async def _on(self, queue: Queue, now: int, operation: Callable[[Tx, Queue], T]) -> T: ...

        def _known(self, queue: Queue) -> Queue: ...

    _claims_due = 0

    async def open_job(self, queue: Queue, *, job: str, now: int) -> Job:
        return await self._on(queue, now, lambda tx, live: open_job(tx, live, job, now=now))

    async def claim(
        self,
        queue: Queue,
        *,
        job: str,
        number: int,
        epoch: int,
        limit: int,
        ready_by: int,
        now: int,
        principal: str,
    ) -> Claim:
        def step(tx: Tx, live: Queue) -> Claim | None:
            return take_part(
                tx, live, job, number, epoch=epoch, limit=limit, ready_by=ready_by, now=now, principal=principal
            )

        while (claim := await self._on(queue, now, step)) is None:
            pass
        return claim

    async def read_claim(self, queue: Queue, *, job: str, number: int, epoch: int, start: int, stop: int) -> Slice:
        live = self._known(queue)
        _check_epoch(self._db, live, job, epoch)
        found = self._db.execute(Q.read_claim, (live.key, job, number)).fetchone()
        if found is None or found[6] != Fate.HELD:
            raise ClaimGone(job, number)
        return Slice(found[1], *await asyncio.to_thread(self._read_parts, live, job, number, start, stop))

    def _read_parts(
        self, queue: Queue, job: str, number: int, start: int, stop: int
    ) -> tuple[list[tuple[int, Message]], int | None]:
        """The messages of these positions that fit one response, and the position of the first that does not."""
        where = {"queue": queue.key, "job": job, "number": number, "start": start, "stop": stop}
        messages: list[tuple[int, Message]] = []
        room = Room()
        with self._reading:
            for first, blob in self._reader.execute(Q.claim_parts, where).fetchall():
                seqs = _seqs(blob)[max(0, start - first) : stop - first]
                sizes = dict(self._reader.execute(Q.claimed_sizes, (queue.key, UNENDING, _json(seqs))))
                fitting = [seq for seq in seqs if room.takes(sizes.get(seq, 0))]
                found = self._reader.execute(Q.claimed_messages, (queue.key, UNENDING, _json(fitting)))
                rows = {row[0]: row for row in found}
                for position, seq in enumerate(fitting, max(first, start)):
                    if seq in rows:
                        messages.append((position, to_message(self._reader, queue, rows[seq])))
                if len(fitting) < len(seqs):
                    return messages, max(first, start) + len(fitting)
        return messages, None

    async def ack_claims(self, queue: Queue, *, job: str, upto: int, epoch: int, now: int, principal: str) -> int:
        def decide(tx: Tx, live: Queue) -> None:
            _check_epoch(tx.db, live, job, epoch)
            tx.execute(Q.finish_claims, (upto, live.key, job))
            _decide(tx, live, job, upto, Fate.ACKED)

        await self._on(queue, now, decide)
        return await self._end_claims(queue, now, principal)

    async def free_job(self, queue: Queue, *, job: str, now: int, principal: str) -> int:
        def decide(tx: Tx, live: Queue) -> None:
            found = _read_job(tx.db, live, job)
            if found is None:
                raise JobNotFound(job)
            last = tx.execute(Q.last_claim, (live.key, job)).fetchone()[0] or 0
            done = max(found.done, last)
            tx.execute(Q.put_job, (live.key, job, found.epoch + 1, done, found.opened_at))
            _decide(tx, live, job, done, Fate.FREED)

        await self._on(queue, now, decide)
        return await self._end_claims(queue, now, principal)

    async def _end_claims(self, queue: Queue, now: int, principal: str) -> int:
        """Carry out what was decided about claims of a queue, whoever decided it."""
        total = 0
        while (
            count := await self._on(
                queue, now, lambda tx, live: end_part(tx, live, self._directory, now=now, principal=principal)
            )
        ) is not None:
            total += count
        return total

    async def _finish_claims(self, now: int) -> None:
        """What a crash has left undone."""
        if self._claims_due > now:
            return
        self._claims_due = now + MINUTE
        for (key,) in self._db.execute(Q.decided_queues).fetchall():
            queue = self._directory.queue_of_key(key)
            if queue is not None:
                await self._end_claims(queue, now, "courier")

    async def jobs(self, queue: Queue) -> list[Job]:
        live = self._known(queue)
        claims: dict[str, list[Claim]] = {}
        for job, number, count, size, claimed_at in self._db.execute(Q.held_claims, (live.key,)):
            claim = Claim(number=number, count=count, byte_count=size, claimed_at=claimed_at)
            claims.setdefault(job, []).append(claim)
        return [
            Job(name=name, epoch=epoch, done=done, opened_at=opened_at, claims=tuple(claims.get(name, ())))
            for name, epoch, done, opened_at in self._db.execute(Q.read_jobs, (live.key,))
        ]


# -- steps --------------------------------------------------------------------------------------------------------


def open_job(tx: Tx, queue: Queue, name: str, *, now: int) -> Job:
    found = _read_job(tx.db, queue, name)
    epoch, done = (found.epoch + 1, found.done) if found else (1, 0)
    tx.execute(Q.put_job, (queue.key, name, epoch, done, now))
    return Job(name=name, epoch=epoch, done=done, opened_at=now)


def take_part(
    tx: Tx, queue: Queue, job: str, number: int, *, epoch: int, limit: int, ready_by: int, now: int, principal: str
) -> Claim | None:
    """Add a part to a claim; the claim once it is complete."""
    if number <= _check_epoch(tx.db, queue, job, epoch).done:
        raise ClaimGone(job, number)
    found = tx.execute(Q.read_claim, (queue.key, job, number)).fetchone()
    count, size, claimed_at, wanted, complete = found[1:6] if found else (0, 0, now, limit, 0)
    if is_new := not complete:
        if queue.settings.paused:
            raise QueuePaused(queue.name)
        room = min(PART, wanted - count)
        facts = _take(tx, queue, room, ready_by)
        if facts:
            _lease(tx, queue, facts, {"job": job, "number": number}, now, principal)
            part = (queue.key, job, number, count, len(facts), encode([seq for seq, *_ in facts]))
            tx.execute(Q.insert_claim_part, part)
        count, size = count + len(facts), size + sum(fact[3] for fact in facts)
        complete = len(facts) < room or count == wanted
        if count:
            tx.execute(Q.put_claim, (queue.key, job, number, wanted, int(complete), count, size, claimed_at))
    if not complete:
        return None
    return Claim(number=number, count=count, byte_count=size, claimed_at=claimed_at, is_new=is_new)


def _take(tx: Tx, queue: Queue, room: int, ready_by: int) -> list[tuple[int, str, int, int]]:
    """seq, id, attempts and size of messages that can be had."""
    if not tx.tally(queue.key).counts[State.READY]:
        return []
    if queue.kind is Kind.FIFO:
        rows = take_groups(tx, queue, limit=room, group_limit=room, now=ready_by)
        return [(row[0], row[1], row[6], row[15]) for row in rows]
    return tx.execute(Q.ready_facts, {"queue": queue.key, "ready_by": ready_by, "limit": room}).fetchall()


def _lease(
    tx: Tx, queue: Queue, facts: list[tuple[int, str, int, int]], claim: dict[str, Json], now: int, principal: str
) -> None:
    tx.executemany(Q.lease, [(UNENDING, seq) for seq, *_ in facts])
    tally, detail = tx.tally(queue.key), {"claim": claim}
    tally.counts[State.READY] -= len(facts)
    tally.counts[State.LEASED] += len(facts)
    for seq, message_id, attempts, size in facts:
        tx.events.note(EventKind.RECEIVED, now, queue, seq, message_id, attempts + 1, size, principal, detail)


def end_part(tx: Tx, queue: Queue, directory: Directory, *, now: int, principal: str) -> int | None:
    """Ack or release a part of a claim that was decided about; how many messages that were, None when none is left."""
    decided = tx.execute(Q.decided_claim, (queue.key,)).fetchone()
    if decided is None:
        return None
    job, number, fate = decided
    part = tx.execute(Q.first_claim_part, (queue.key, job, number)).fetchone()
    if part is None:
        tx.execute(Q.delete_claim, (queue.key, job, number))
        return 0
    desk = Desk(tx, queue, directory, now, principal)
    count = desk.end_claimed(_seqs(part[1]), Fate(fate), {"claim": {"job": job, "number": number}})
    tx.execute(Q.delete_claim_part, (queue.key, job, number, part[0]))
    return count


def forget_claims(tx: Tx, key: int) -> None:
    """The queue is gone."""
    for query in (Q.forget_claim_parts, Q.forget_claims, Q.forget_jobs):
        tx.execute(query, (key,))


def _decide(tx: Tx, queue: Queue, job: str, upto: int, fate: Fate) -> None:
    tx.execute(Q.decide_claims, {"fate": int(fate), "queue": queue.key, "job": job, "upto": upto})


def _read_job(db: "sqlite3.Connection", queue: Queue, name: str) -> Job | None:
    row = db.execute(Q.read_job, (queue.key, name)).fetchone()
    return Job(name=row[0], epoch=row[1], done=row[2], opened_at=row[3]) if row else None


def _check_epoch(db: "sqlite3.Connection", queue: Queue, name: str, epoch: int) -> Job:
    job = _read_job(db, queue, name)
    if job is None or job.epoch != epoch:
        raise Fenced(name, epoch)
    return job


def _json(seqs: Sequence[int]) -> str:
    return msgspec.json.encode(seqs).decode()
