"""Messages that a job holds without end: claimed, read, acked and freed in steps, a transaction each.

Whatever a job does happens under the lock of its row, so that two nodes never act for two epochs at once. A claim is
answered for when it is complete; its end is decided in one transaction and then carried out part by part. Both go on
where they were after a crash, at whatever node.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from couriermq.core.errors import ClaimGone, Fenced, JobNotFound, QueuePaused
from couriermq.core.events import EventKind
from couriermq.core.limits import RESPONSE_BYTES
from couriermq.core.model import MINUTE, UNENDING, Claim, Fate, Job, Json, Kind, Queue, Slice, State
from couriermq.storage.base import Directory
from couriermq.storage.postgres import claiming
from couriermq.storage.postgres.arrays import numbers
from couriermq.storage.postgres.ending import end_delivered, note
from couriermq.storage.postgres.link import Rows
from couriermq.storage.postgres.orders import Receive
from couriermq.storage.postgres.pool import Pool
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.rows import Row, encode, read, to_message
from couriermq.storage.postgres.settling import Desk
from couriermq.storage.postgres.transaction import Transaction

T = TypeVar("T")

PART = 2_000
"""Messages of one part: as many as one transaction takes."""

_seqs = msgspec.msgpack.Decoder(list[int]).decode


class Claims:
    """What the store does for jobs."""

    if TYPE_CHECKING:
        _pool: Pool
        _directory: Directory

        async def _alone(
            self, queue: Queue, now: int, work: Callable[[Transaction, Queue], Awaitable[T]], also: Queue | None = None
        ) -> T: ...

        def _known(self, queue: Queue) -> Queue: ...

        @property
        def leads(self) -> bool: ...

    _claims_due = 0

    async def open_job(self, queue: Queue, *, job: str, now: int) -> Job:
        async def work(tx: Transaction, live: Queue) -> Job:
            (found,) = await _ask(tx, Q.open_job, queue=live.key, job=job, now=now)
            return _job(found)

        return await self._alone(queue, now, work)

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
        async def step(tx: Transaction, live: Queue) -> Claim | None:
            return await take_part(
                tx, live, job, number, epoch=epoch, limit=limit, ready_by=ready_by, now=now, principal=principal
            )

        while (claim := await self._alone(queue, now, step)) is None:
            pass
        return claim

    async def read_claim(self, queue: Queue, *, job: str, number: int, epoch: int, start: int, stop: int) -> Slice:
        live = self._known(queue)
        where = {"queue": live.key, "job": job, "number": number}
        jobs, claims, parts = await self._pool.ask(
            (Q.read_job, where), (Q.read_claim, where), (Q.claim_parts, {**where, "start": start, "stop": stop})
        )
        _check_epoch(jobs, job, epoch)
        if not claims or claims[0][6] != Fate.HELD:
            raise ClaimGone(job, number)
        placed = {seq: first + place for first, blob in parts for place, seq in enumerate(_seqs(blob))}
        wanted = [seq for seq, position in placed.items() if start <= position < stop]
        found = await self._pool.ask_one(
            Q.claimed_messages, seqs=numbers(wanted), queue=live.key, due_at=UNENDING, budget=RESPONSE_BYTES
        )
        rows = [read(facts) for facts in found]
        pairs = [(placed[row.seq], to_message(live, row)) for row in rows]
        is_cut = sum(len(row.content or b"") for row in rows) >= RESPONSE_BYTES
        return Slice(claims[0][1], pairs, pairs[-1][0] + 1 if is_cut else None)

    async def ack_claims(self, queue: Queue, *, job: str, upto: int, epoch: int, now: int, principal: str) -> int:
        async def decide(tx: Transaction, live: Queue) -> None:
            where = {"queue": live.key, "job": job}
            _check_epoch(await _ask(tx, Q.lock_job, **where), job, epoch)
            await _ask(tx, Q.finish_claims, **where, upto=upto)
            await _ask(tx, Q.decide_claims, **where, upto=upto, fate=int(Fate.ACKED))

        await self._alone(queue, now, decide)
        return await self._end_claims(queue, now, principal)

    async def free_job(self, queue: Queue, *, job: str, now: int, principal: str) -> int:
        async def decide(tx: Transaction, live: Queue) -> None:
            where = {"queue": live.key, "job": job}
            if not await _ask(tx, Q.lock_job, **where):
                raise JobNotFound(job)
            ((done,),) = await _ask(tx, Q.end_epoch, **where)
            await _ask(tx, Q.decide_claims, **where, upto=done, fate=int(Fate.FREED))

        await self._alone(queue, now, decide)
        return await self._end_claims(queue, now, principal)

    async def _end_claims(self, queue: Queue, now: int, principal: str) -> int:
        """Carry out what was decided about claims of a queue, whoever decided it."""

        async def work(tx: Transaction, live: Queue) -> int | None:
            return await end_part(tx, live, self._directory, now=now, principal=principal)

        total = 0
        while (count := await self._alone(queue, now, work)) is not None:
            total += count
        return total

    async def _finish_claims(self, now: int) -> None:
        """What a node that died has left undone."""
        if not self.leads or self._claims_due > now:
            return
        self._claims_due = now + MINUTE
        for (key,) in await self._pool.ask_one(Q.decided_queues):
            queue = self._directory.queue_of_key(key)
            if queue is not None:
                await self._end_claims(queue, now, "courier")

    async def jobs(self, queue: Queue) -> list[Job]:
        where = {"queue": self._known(queue).key}
        jobs, held = await self._pool.ask((Q.read_jobs, where), (Q.held_claims, where))
        claims: dict[str, list[Claim]] = {}
        for job, number, count, size, claimed_at in held:
            claim = Claim(number=number, count=count, byte_count=size, claimed_at=claimed_at)
            claims.setdefault(job, []).append(claim)
        return [_job(row, tuple(claims.get(row[0], ()))) for row in jobs]


# -- steps --------------------------------------------------------------------------------------------------------


async def take_part(
    tx: Transaction,
    queue: Queue,
    job: str,
    number: int,
    *,
    epoch: int,
    limit: int,
    ready_by: int,
    now: int,
    principal: str,
) -> Claim | None:
    """Add a part to a claim; the claim once it is complete."""
    where = {"queue": queue.key, "job": job, "number": number}
    jobs, claims = await tx.ask((Q.lock_job, where), (Q.read_claim, where))
    if number <= _check_epoch(jobs, job, epoch).done:
        raise ClaimGone(job, number)
    count, size, claimed_at, wanted, complete = claims[0][1:6] if claims else (0, 0, now, limit, False)
    if is_new := not complete:
        if queue.settings.paused:
            raise QueuePaused(queue.name)
        room = min(PART, wanted - count)
        rows = await _take(tx, queue, room, ready_by, principal)
        if rows:
            _lease(tx, queue, rows, {"job": job, "number": number}, now, principal)
            seqs = encode([row.seq for row in rows])
            await _ask(tx, Q.insert_claim_part, **where, first=count, count=len(rows), seqs=seqs)
        count, size = count + len(rows), size + sum(row.size for row in rows)
        is_last = len(rows) < room and (not rows or queue.key not in tx.cut)
        complete = is_last or count == wanted
        if count:
            await _ask(
                tx, Q.put_claim, **where, wanted=wanted, complete=complete, count=count, bytes=size,
                claimed_at=claimed_at,
            )  # fmt: skip
    if not complete:
        return None
    return Claim(number=number, count=count, byte_count=size, claimed_at=claimed_at, is_new=is_new)


async def _take(tx: Transaction, queue: Queue, room: int, ready_by: int, principal: str) -> list[Row]:
    """Messages that can be had, locked."""
    if queue.kind is Kind.FIFO:
        return await claiming.take_groups(tx, queue, Receive(queue, room, 0, None, ready_by, principal))
    found = (await claiming.claim(tx, {queue.key: room}))[queue.key]
    taken = [row for row in found if row.due_at <= ready_by]
    if len(taken) < len(found):
        tx.made_ready(queue.key, len(found) - len(taken))  # a receiver may have passed over it
    return taken


def _lease(tx: Transaction, queue: Queue, rows: list[Row], claim: dict[str, Json], now: int, principal: str) -> None:
    for row in rows:
        row.state, row.due_at = State.LEASED, UNENDING
        row.attempts += 1
        row.lease_no += 1
        tx.put(row)
        note(tx, EventKind.RECEIVED, now, queue, row, principal, {"claim": claim})
    change = tx.change(queue.key)
    change.counts[State.READY] -= len(rows)
    change.counts[State.LEASED] += len(rows)


async def end_part(tx: Transaction, queue: Queue, directory: Directory, *, now: int, principal: str) -> int | None:
    """Ack or release a part of a claim that was decided about; how many messages that were, None when none is left."""
    decided = await _ask(tx, Q.decided_claim, queue=queue.key)
    if not decided:
        return None
    job, number, fate = decided[0]
    where = {"queue": queue.key, "job": job, "number": number}
    parts = await _ask(tx, Q.first_claim_part, **where)
    if not parts:
        await _ask(tx, Q.delete_claim, **where)
        return 0
    first, blob = parts[0]
    rows = {row.seq: row for row in await tx.load_named(_seqs(blob))}
    desk = Desk(tx, queue, rows, directory, now, principal)
    count = desk.end_claimed(_seqs(blob), Fate(fate), {"claim": {"job": job, "number": number}})
    if tx.delivered:
        await end_delivered(tx, directory, at=now, principal=principal)
    await _ask(tx, Q.delete_claim_part, **where, first=first)
    return count


async def _ask(tx: Transaction, sql: str, **params: object) -> Rows:
    return (await tx.ask((sql, params)))[0]


def _job(row: tuple[object, ...], claims: tuple[Claim, ...] = ()) -> Job:
    name, epoch, done, opened_at = row
    return Job(name=name, epoch=epoch, done=done, opened_at=opened_at, claims=claims)  # type: ignore[arg-type]


def _check_epoch(found: Rows, name: str, epoch: int) -> Job:
    if not found or found[0][1] != epoch:
        raise Fenced(name, epoch)
    return _job(found[0])
