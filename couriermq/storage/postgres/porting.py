"""Messages between databases: some that go to a queue elsewhere, or a whole queue with all that is known of it.

Rows travel as they are, by COPY, whatever columns they have. A queue that is copied stays in use: what changed
meanwhile is found in the journal and copied again, until it is little enough to be waited for.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from couriermq.core.errors import QueueNotFound, Unavailable
from couriermq.core.model import DAY, Kind, Queue, State
from couriermq.core.shards import first_of
from couriermq.storage.base import StoredRecord
from couriermq.storage.postgres.arrays import blobs, numbers, truths
from couriermq.storage.postgres.circle import Circle
from couriermq.storage.postgres.journal import Journal
from couriermq.storage.postgres.link import Connection, Step, ask
from couriermq.storage.postgres.pool import Pool
from couriermq.storage.postgres.queries import Q, load
from couriermq.storage.postgres.solo import alone
from couriermq.storage.postgres.transaction import CATALOG_LOCK, Transaction

P = load("porting.sql")
JOURNAL_LOCK = -1
STEP = 2_000
EVENTS = 10_000
PACKED = {"bundle": "seq", "held": "lease_no"}
"""Tables whose rows are several messages of a queue, and what tells them apart."""
MEMORY_MS = DAY
"""How long an arrival is remembered: far longer than it takes to let the sender know."""

_NEWEST = "version = (SELECT max(version) FROM tally AS other WHERE other.queue = tally.queue)"

Traveller = tuple[Any, ...]
"""seq, journey, id, given, size, due_at, entered_at, lease_no, grp, death, content."""
Cursor = tuple[int, int]
Versions = dict[str, dict[int, str]]
"""Of the rows of a queue with several messages each, by table and key: by which transaction each was written.

A bundle is never changed, only replaced, perhaps by one that begins with the same seq."""
Mark = tuple[str, str]
"""The id of a queue that moves, and who moves it."""


class Porting:
    """What a shard can do with its messages that a store on its own never needs."""

    def __init__(self, circle: Circle, pool: Pool) -> None:
        self._circle = circle
        self._pool = pool
        self._journal = Journal(pool)

    # -- travellers -------------------------------------------------------------------------------------------

    async def travellers(self, key: int, *, limit: int) -> list[Traveller]:
        """Messages that wait under a key for a queue elsewhere."""
        return await self._pool.ask_one(P.travellers, key=key, limit=limit)

    async def arrive(self, queue: Queue, travellers: Sequence[Traveller], *, source: int, now: int) -> None:
        """Put travellers into their queue, each once however often it comes; raises QueueNotFound if it moved on."""

        async def work(tx: Transaction) -> None:
            where = {
                "key": queue.key,
                "seqs": numbers(traveller[0] for traveller in travellers),
                "journeys": blobs(f"{source}:{t[0]}:{t[1]}".encode() for t in travellers),
                "until_at": now + MEMORY_MS,
            }
            (found,) = await tx.ask((P.remember_arrivals, where))
            fresh = {seq for (seq,) in found}
            new = [traveller for traveller in travellers if traveller[0] in fresh]
            if new:
                await tx.ask((P.insert_arrivals, _arrivals(queue, new)))
                _note_arrivals(tx, queue, new)

        await alone(self._circle, self._pool, lambda: [self._resident(queue)], work)

    def _resident(self, queue: Queue) -> Queue:
        found = self._circle.directory.queue_of_key(queue.key)
        if found is None:
            raise QueueNotFound(queue.name)
        return found

    async def depart(self, key: int, seqs: Sequence[int]) -> None:
        """Forget travellers that have arrived."""

        async def work(tx: Transaction) -> None:
            (gone,) = await tx.ask((P.remove_travellers, {"key": key, "seqs": numbers(seqs)}))
            change = tx.change(key)
            for (size,) in gone:
                change.remove(State.READY, size)

        await alone(self._circle, self._pool, list, work)

    # -- a whole queue ----------------------------------------------------------------------------------------

    async def take_mark(self, mark: Mark) -> None:
        """Shut out whoever has moved the queue before; returns when nothing of that is under way any more."""
        await self._pool.ask_one(P.take_mark, **_named(mark))

    async def count(self, keys: Sequence[int]) -> int:
        ((count,),) = await self._pool.ask_one(P.count_messages, keys=numbers(keys))
        return int(count)

    async def copy_page(self, target: "Porting", key: int, after: Cursor, mark: Mark) -> tuple[int, Cursor | None]:
        """Copy the next messages of a queue; how many, and where to go on, if there are more."""
        page = await self._pool.ask_one(P.page_of_seqs, key=key, entered_at=after[0], seq=after[1], limit=STEP)
        await self.copy_named(target, [key], [seq for _, seq in page], mark)
        return len(page), (page[-1] if len(page) == STEP else None)

    async def copy_named(self, target: "Porting", keys: Sequence[int], seqs: Sequence[int], mark: Mark) -> None:
        """Make the copies of these messages what the messages are now: changed, or gone."""
        for first in range(0, len(seqs), STEP):
            some = numbers(seqs[first : first + STEP])
            where = f"queue = ANY ('{numbers(keys)}'::int[]) AND seq = ANY ('{some}'::bigint[])"
            delete = P.delete_copies, {"keys": numbers(keys), "seqs": some}
            await self._copy(target, "message", where, delete, mark)

    async def copy_packs(self, target: "Porting", key: int, known: Versions, mark: Mark) -> Versions:
        """Copy the rows of several messages each that are not as they are known to be; what is known from then on."""
        present: Versions = {}
        for table, column in PACKED.items():
            query = f"SELECT {column}, xmin::text FROM {table} WHERE queue = %(key)s"  # noqa: S608 - ours
            before = known.get(table, {})
            now: dict[int, str] = dict(await self._pool.ask_one(query, key=key))
            present[table] = now
            changed = [place for place in before.keys() | now.keys() if before.get(place) != now.get(place)]
            for first in range(0, len(changed), STEP):
                where = f"{_among([key])} AND {column} = ANY ('{numbers(changed[first : first + STEP])}'::bigint[])"
                await self._copy(target, table, where, _erase(table, where), mark)
        return present

    async def copy_rest(self, target: "Porting", queues: Sequence[Queue], mark: Mark) -> None:
        """Copy what there is besides messages: figures, groups, claims, stages, ids that FIFO queues remember."""
        for table, where, erase in _besides(queues):
            await self._copy(target, table, where, erase, mark)

    async def _copy(self, target: "Porting", table: str, where: str, erase: Step, mark: Mark) -> None:
        async with self._pool.taken() as source, target._pool.taken() as goal:
            columns = ", ".join(name for (name,) in (await ask(source, [(P.columns, {"table": table})]))[0])
            out = f"COPY (SELECT {columns} FROM {table} WHERE {where}) TO STDOUT (FORMAT BINARY)"  # noqa: S608 - ours
            into = f"COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)"
            await _begin(goal, mark, erase)
            await _pipe(source, out.encode(), goal, into.encode())
            await goal.execute("COMMIT")

    async def touched(self, starts: dict[int, int], queue_ids: set[str]) -> tuple[list[int], dict[int, int]]:
        """The seqs that events of some queues, from an offset of each lane on, have to do with; the offsets after."""
        seqs: set[int] = set()
        ends = dict(starts)
        for lane in starts:
            while entries := await self._journal.read(start=ends[lane], limit=EVENTS):
                for entry in entries:
                    event = entry.event
                    target = event.detail.get("target_id") if event.detail else None
                    if event.seq is not None and (event.queue_id in queue_ids or target in queue_ids):
                        seqs.add(event.seq)
                ends[lane] = entries[-1].offset + 1
        return sorted(seqs), ends

    async def arrived_since(self, keys: Sequence[int], since: int) -> list[int]:
        """Seqs that came from other shards: their events are in the journals there."""
        found = await self._pool.ask_one(
            P.arrived_since, stand_ins=numbers(-key for key in keys), until_at=since + MEMORY_MS
        )
        return [seq for (seq,) in found]

    async def delayed(self, keys: Sequence[int], horizon: int) -> list[int]:
        found = await self._pool.ask_one(P.delayed_seqs, keys=numbers(keys), horizon=horizon)
        return [seq for (seq,) in found]

    async def start_seqs(self, first: int) -> None:
        await self._pool.ask_one(P.start_seqs, first=first)

    async def erase(self, queues: Sequence[Queue], mark: Mark) -> None:
        """Remove every trace of queues that do not live here, without a word in the journal."""
        for queue in queues:
            while await self._erase_some(queue.key, mark):
                pass
        async with self._pool.taken() as connection:
            lock = Q.lock, {"space": self._circle.space, "keys": numbers([JOURNAL_LOCK])}
            await _begin(connection, mark, lock, *(erase for _, _, erase in _besides(queues)))
            await connection.execute("COMMIT")

    async def _erase_some(self, key: int, mark: Mark) -> int:
        async with self._pool.taken() as connection:
            await _begin(connection, mark)
            gone = await ask(
                connection,
                [(sql, {"key": key, "limit": STEP}) for sql in (P.erase_some, P.erase_bundles, P.erase_held)],
            )
            await connection.execute("COMMIT")
            return sum(map(len, gone))

    async def remove_records(self, records: Iterable[StoredRecord], mark: Mark) -> None:
        """Take records out of the control plane here; unlike a deleted queue, one that has left is not swept."""
        circle = self._circle
        async with self._pool.taken() as connection:
            await _begin(connection, mark, (Q.lock, {"space": circle.space, "keys": numbers([CATALOG_LOCK])}))
            (((present,),),) = await ask(connection, [(Q.catalog_version, {})])
            removals: list[Step] = [
                (P.remove_record, {"kind": r.kind, "tenant": r.tenant, "id": r.id, "version": present + 1})
                for r in records
            ]
            version: Step = (Q.put_catalog_version, {"version": present + 1})
            tx = Transaction(connection, circle.space)
            with circle.attempt(tx):
                await tx.commit(partial(circle.notice, catalog=True), [*removals, version])
        await circle.refresh()


async def _begin(connection: Connection, mark: Mark, *steps: Step) -> None:
    """A transaction that ends well only under the newest mark."""
    _, found, *_ = await ask(connection, [("BEGIN", {}), (P.check_mark, _named(mark)), *steps])
    if not found:
        raise Unavailable("another node has taken over the move of the queue")


def _named(mark: Mark) -> dict[str, str]:
    return {"queue_id": mark[0], "runner": mark[1]}


def _besides(queues: Sequence[Queue]) -> list[tuple[str, str, Step]]:
    """The tables that tell of queues besides their messages, which rows, and how they are removed."""
    keys = [queue.key for queue in queues]
    both = [*keys, *(-key for key in keys)]  # under the negative keys it is known what has come from other shards
    named = f"target = ANY ({_quoted(queue.id for queue in queues)})"
    found = [(table, _among(keys)) for table in ("fifo", "job", "claim", "claim_part")]
    found += [("dedup", _among(both)), ("stage", named), ("publication", named)]
    erases = [(table, where, _erase(table, where)) for table, where in found]
    return [*erases, ("tally", f"{_among(keys)} AND {_NEWEST}", _erase("tally", _among(keys)))]


def _erase(table: str, where: str) -> Step:
    return f"DELETE FROM {table} WHERE {where}", {}  # noqa: S608 - ours


def _quoted(ids: Iterable[str]) -> str:
    return "ARRAY[" + ", ".join(f"'{one}'" for one in ids) + "]::text[]"  # our own ids: letters, digits, dashes


def _among(keys: Sequence[int]) -> str:
    return f"queue = ANY ('{numbers(keys)}'::int[])"


async def _pipe(source: Connection, out: bytes, goal: Connection, into: bytes) -> None:
    reader, writer = source.cursor(), goal.cursor()
    async with reader.copy(out) as rows, writer.copy(into) as copies:
        async for block in rows:
            await copies.write(block)


def _arrivals(queue: Queue, travellers: Sequence[Traveller]) -> dict[str, Any]:
    seqs, _, ids, givens, sizes, due_ats, entered_ats, lease_nos, grps, deaths, contents = zip(*travellers, strict=True)
    return {
        "key": queue.key, "seqs": numbers(seqs), "ids": blobs(ids), "givens": truths(givens), "sizes": numbers(sizes),
        "due_ats": numbers(due_ats), "entered_ats": numbers(entered_ats), "lease_nos": numbers(lease_nos),
        "grps": blobs(_group(queue, grp) for grp in grps), "deaths": blobs(deaths), "contents": blobs(contents),
    }  # fmt: skip


def _group(queue: Queue, grp: bytes | None) -> bytes | None:
    return (grp or b"") if queue.kind is Kind.FIFO else (grp or None)


def _note_arrivals(tx: Transaction, queue: Queue, travellers: Sequence[Traveller]) -> None:
    change = tx.change(queue.key)
    for _, _, _, _, size, due_at, entered_at, _, grp, _, _ in travellers:
        change.add(State.READY, size)
        tx.show(queue.key, due_at)
        tx.due(queue.key, entered_at + queue.settings.retention_ms)
        if queue.kind is Kind.FIFO:
            tx.touch_group(queue.key, _group(queue, grp))
    tx.made_ready(queue.key, len(travellers))


async def join(connection: Connection, number: int, seal_key: bytes) -> str | None:
    """Make an empty database shard `number` of a store; a sentence when it is, or belongs to, something else."""
    ((used,),) = (await ask(connection, [(P.is_used, {})]))[0]
    if not used:
        first = first_of(number) + 1
        await ask(
            connection, [(P.join_shard, {"number": number, "seal_key": seal_key}), (P.start_seqs, {"first": first})]
        )
    ((present,),) = (await ask(connection, [(Q.read_meta, {"name": "shard"})]))[0] or [(None,)]
    ((key,),) = (await ask(connection, [(Q.read_meta, {"name": "seal_key"})]))[0] or [(None,)]
    if present is None or key is None:
        return "it holds data of its own"
    if bytes(key) != seal_key:
        return "it belongs to another store"
    if int(bytes(present)) != number:
        return f"it is shard {int(bytes(present))}"
    return None
