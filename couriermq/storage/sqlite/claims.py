"""What the store does for jobs; `core.lifecycle.claim` has the rules."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from couriermq.core.errors import Unavailable
from couriermq.core.lifecycle import claim as rules
from couriermq.core.lifecycle.needs import Named
from couriermq.core.lifecycle.rows import Pack, Single, message_of, messages_of
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import Room
from couriermq.core.model import MINUTE, Claim, Job, Message, Queue, Slice
from couriermq.storage.base import Directory
from couriermq.storage.group_commit import GroupCommit
from couriermq.storage.sqlite.checksums import Damaged, sound
from couriermq.storage.sqlite.contents import load_contents
from couriermq.storage.sqlite.engine import MOST_DAMAGED
from couriermq.storage.sqlite.facts import Facts
from couriermq.storage.sqlite.queries import Q

if TYPE_CHECKING:
    import sqlite3
    import threading

_seqs = msgspec.msgpack.Decoder(list[int]).decode


class Claims:
    """The part of the store that jobs use."""

    if TYPE_CHECKING:
        _db: sqlite3.Connection
        _reader: sqlite3.Connection
        _reading: threading.Lock
        _directory: Directory
        _commit: GroupCommit

        async def _on(self, queue: Queue, now: int, decide: Callable[[Unit, Queue], Any]) -> Any: ...

        async def _look(self, order: Callable[[Unit], Any]) -> Any: ...

        async def _wait_until_durable(self) -> None: ...

        def _known(self, queue: Queue) -> Queue: ...

        def _set_aside(self, unit: Unit, damaged: Damaged) -> Any: ...

    _claims_due = 0

    async def open_job(self, queue: Queue, *, job: str, now: int) -> Job:
        opened: Job = await self._on(queue, now, lambda unit, live: rules.open_job(unit, live, job, now=now))
        return opened

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
        step = partial(
            rules.take_part, job=job, number=number, epoch=epoch, limit=limit, ready_by=ready_by, now=now,
            principal=principal,
        )  # fmt: skip
        claim: Claim | None = None
        while claim is None:
            claim = await self._on(queue, now, step)
        return claim

    async def read_claim(self, queue: Queue, *, job: str, number: int, epoch: int, start: int, stop: int) -> Slice:
        live = self._known(queue)
        found = await self._look(lambda unit: rules.held_claim(live, job, number, epoch))
        read = partial(self._read_parts, live, job, number, start, stop)
        for _ in range(MOST_DAMAGED):
            try:
                messages, upcoming = await asyncio.to_thread(read)
                break
            except Damaged as damaged:
                count = await self._commit.submit(partial(self._set_aside, damaged=damaged))
                self._commit.metrics.quarantined += count or 0
                if count is None:
                    raise Unavailable(f"{damaged}; run `courier doctor`") from damaged
        await self._wait_until_durable()
        return Slice(found.count, messages, upcoming)

    def _read_parts(
        self, queue: Queue, job: str, number: int, start: int, stop: int
    ) -> tuple[list[tuple[int, Message]], int | None]:
        """The messages of these positions that fit one response, and the position of the first that does not."""
        where = {"queue": queue.key, "job": job, "number": number, "start": start, "stop": stop}
        messages: list[tuple[int, Message]] = []
        room = Room()
        with self._reading:
            self._reader.execute("BEGIN")  # one moment for the rows and what they point to
            try:
                for row in self._reader.execute(Q.claim_parts, where).fetchall():
                    first, blob = sound(f"claim {number} of job {job}", row)
                    seqs = _seqs(blob)[max(0, start - first) : stop - first]
                    found, fitting = self._claimed(queue, seqs, room)
                    positions = enumerate(fitting, max(first, start))
                    messages += [(position, found[seq]) for position, seq in positions if seq in found]
                    if len(fitting) < len(seqs):
                        return messages, max(first, start) + len(fitting)
            finally:
                self._reader.execute("COMMIT")
        return messages, None

    def _claimed(self, queue: Queue, seqs: list[int], room: Room) -> tuple[dict[int, Message], list[int]]:
        """Of the named messages those that a claim still holds, and the seqs up to which they fit."""
        found = Facts(self._reader).load(Named(queue.key, seqs))
        packs, singles = list(filter(rules.is_held, found.packs)), list(filter(rules.is_held, found.singles))
        fitting = self._fitting(seqs, packs, singles, room)
        wanted = set(fitting)
        packs = [pack for pack in packs if not wanted.isdisjoint(pack.seqs())]
        singles = [single for single in singles if single.seq in wanted]
        contents = load_contents(self._reader, packs, singles)
        messages = {single.seq: message_of(single, queue, contents.body_of(single)) for single in singles}
        for pack in packs:
            indexes = [index for index in pack.indexes() if pack.first + index in wanted]
            messages |= {message.seq: message for message in messages_of(pack, indexes, queue, contents)}
        return messages, fitting

    def _fitting(self, seqs: list[int], packs: list[Pack], singles: list[Single], room: Room) -> list[int]:
        sizes = {single.seq: single.size for single in singles}
        for pack in packs:
            run, first = load_contents(self._reader, [pack], [], bodies=False).run_of(pack)
            sizes |= {pack.first + index: run.sizes[first + index] or 0 for index in pack.indexes()}
        return [seq for seq in seqs if room.takes(sizes.get(seq, 0))]

    async def ack_claims(self, queue: Queue, *, job: str, upto: int, epoch: int, now: int, principal: str) -> int:
        await self._on(queue, now, lambda unit, live: rules.ack_claims(unit, live, job, upto=upto, epoch=epoch))
        return await self._end_claims(queue, now, principal)

    async def free_job(self, queue: Queue, *, job: str, now: int, principal: str) -> int:
        await self._on(queue, now, lambda unit, live: rules.free_job(unit, live, job))
        return await self._end_claims(queue, now, principal)

    async def _end_claims(self, queue: Queue, now: int, principal: str) -> int:
        """Carry out what was decided about claims of a queue, by whichever caller."""
        step = partial(rules.end_part, queues=self._directory, now=now, principal=principal)
        total = 0
        while (count := await self._on(queue, now, step)) is not None:
            total += count
        return total

    async def _finish_claims(self, now: int) -> None:
        """What a crash has left undone."""
        if self._claims_due > now:
            return
        self._claims_due = now + MINUTE
        for (key,) in await self._look(lambda unit: self._db.execute(Q.decided_queues).fetchall()):
            queue = self._directory.queue_of_key(key)
            if queue is not None:
                await self._end_claims(queue, now, "courier")

    async def jobs(self, queue: Queue) -> list[Job]:
        found: list[Job] = await self._look(lambda unit: self._jobs(self._known(queue)))
        return found

    def _jobs(self, queue: Queue) -> list[Job]:
        claims: dict[str, list[Claim]] = {}
        for row in self._db.execute(Q.held_claims, (queue.key,)).fetchall():
            job, number, count, size, claimed_at = sound(f"a claim of queue {queue.name}", row)
            claim = Claim(number=number, count=count, byte_count=size, claimed_at=claimed_at)
            claims.setdefault(job, []).append(claim)
        return [
            Job(name=name, epoch=epoch, done=done, opened_at=opened_at, claims=tuple(claims.get(name, ())))
            for name, epoch, done, opened_at in (
                sound(f"a job of queue {queue.name}", row)
                for row in self._db.execute(Q.read_jobs, (queue.key,)).fetchall()
            )
        ]
