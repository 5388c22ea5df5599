"""Messages between databases: some that go to a queue elsewhere, or a whole queue with all that is known of it.

Rows are copied unchanged by COPY, with all their columns; with packs and singles travel the journal rows that they
point to, which readers of the other journal do not see. A queue that is copied stays in use: what changed meanwhile is
found in the journal and copied again, until it is little enough to be waited for.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from zlib import crc32

from couriermq.clock import fresh_key
from couriermq.core.chronicle import join_bodies
from couriermq.core.errors import QueueNotFound, Unavailable
from couriermq.core.lifecycle import travel
from couriermq.core.lifecycle.needs import Deciding
from couriermq.core.lifecycle.travel import Traveller
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Queue
from couriermq.core.shards import first_of
from couriermq.storage.base import CannotOpen, StoredRecord
from couriermq.storage.contents import is_intact
from couriermq.storage.dump import NOTE, refuse_part
from couriermq.storage.group_commit import Collector
from couriermq.storage.postgres.connection import Connection, Pool, Step, ask, numbers
from couriermq.storage.postgres.engine import ONE_MOMENT
from couriermq.storage.postgres.facts import Q
from couriermq.storage.postgres.journal import Journal
from couriermq.storage.postgres.notifications import Node
from couriermq.storage.postgres.records import Records

STEP = 2_000
EVENTS = 10_000

Cursor = tuple[int, int]
Versions = dict[str, dict[int, str]]
"""Of the packs of a queue, by table and key: by which transaction each was written."""
Mark = tuple[str, str]
"""The id of a queue that moves, and who moves it."""
Erase = tuple[str, str, Step]
"""A table, which rows of it, and how they are removed."""


class Porting:
    """What a shard can do with its messages that a store on its own never needs."""

    def __init__(self, node: Node, pool: Pool, commit: Collector, records: Records) -> None:
        self._node = node
        self._pool = pool
        self._commit = commit
        self._records = records
        self._journal = Journal(pool, shard=node.shard)

    # -- travellers -------------------------------------------------------------------------------------------

    async def travellers(self, key: int, *, limit: int) -> list[Traveller]:
        """Messages that wait under a key for a queue elsewhere."""
        found: list[Traveller] = await self._commit.submit(partial(travel.travellers, key=key, limit=limit))
        return found

    async def arrive(self, queue: Queue, travellers: Sequence[Traveller], *, source: int, now: int) -> None:
        """Put travellers into their queue, each once however often it comes; raises QueueNotFound if it moved on."""

        def order(unit: Unit) -> Deciding[None]:
            yield from travel.arrive(unit, self._resident(queue), travellers, now=now)

        await self._commit.submit(order)

    async def come_home(self, key: int, queue: Queue, *, limit: int, now: int) -> int:
        """Put what waits under a key into its queue, which lives here now; how many. Raises as `arrive` does."""

        def order(unit: Unit) -> Deciding[int]:
            return (yield from travel.come_home(unit, key, self._resident(queue), limit=limit, now=now))

        count: int = await self._commit.submit(order)
        return count

    def _resident(self, queue: Queue) -> Queue:
        live = self._node.directory.queue_of_key(queue.key)
        if live is None:
            raise QueueNotFound(queue.name)
        return live

    async def depart(self, key: int, seqs: Sequence[int]) -> None:
        """Forget travellers that have arrived."""
        await self._commit.submit(lambda unit: travel.depart(unit, key, seqs))

    # -- a whole queue ----------------------------------------------------------------------------------------

    async def take_mark(self, mark: Mark) -> None:
        """Shut out whoever has moved the queue before; returns when nothing of that is under way any more."""
        await self._pool.ask_one(Q.take_mark, *mark)

    async def count(self, keys: Sequence[int]) -> int:
        ((count,),) = await self._pool.ask_one(Q.count_messages, numbers(keys))
        return int(count)

    async def copy_page(self, target: "Porting", key: int, after: Cursor, mark: Mark) -> tuple[int, Cursor | None]:
        """Copy the next single messages of a queue; how many, and where to go on, if there are more."""
        where = (key, *after, STEP)
        page = await self._pool.ask_one(Q.page_of_seqs, *where, *where, STEP)
        await self.copy_named(target, [key], [seq for _, seq in page], mark)
        return len(page), (page[-1] if len(page) == STEP else None)

    async def copy_named(self, target: "Porting", keys: Sequence[int], seqs: Sequence[int], mark: Mark) -> None:
        """Make the copies of these single messages what the messages are now: changed, or gone."""
        for first in range(0, len(seqs), STEP):
            some = numbers(seqs[first : first + STEP])
            singles = f"queue = ANY ('{numbers(keys)}'::int[]) AND seq = ANY ('{some}'::bigint[])"
            bodies = f"seq IN (SELECT seq FROM message WHERE {singles} AND start IS NULL)"  # noqa: S608 - ours
            erase: Step = (Q.delete_copies, (numbers(keys), some))
            tables = {"message": singles, "payload": bodies}
            await self._copy(target, tables, [erase], mark, rows=(Q.rows_of_singles, (some,)))

    async def copy_packs(self, target: "Porting", key: int, known: Versions, mark: Mark) -> Versions:
        """Copy the packs that are not as they are known to be; what is known from then on."""
        before = known.get("pack", {})
        now: dict[int, str] = dict(await self._pool.ask_one(Q.versions_of_packs, key))
        changed = [last for last in before.keys() | now.keys() if before.get(last) != now.get(last)]
        for first in range(0, len(changed), STEP):
            some = numbers(changed[first : first + STEP])
            where = {"pack": f"queue = {key} AND last = ANY ('{some}'::bigint[])"}
            erase: Step = (Q.delete_pack_copies, (key, some))
            await self._copy(target, where, [erase], mark, rows=(Q.rows_of_packs, (some,)))
        return {"pack": now}

    async def copy_rest(self, target: "Porting", queues: Sequence[Queue], mark: Mark) -> None:
        """Copy what there is besides messages: figures, groups, claims, stages, ids that FIFO queues remember."""
        for table, where, erase in _besides(queues):
            await self._copy(target, {table: where}, [erase], mark)
        keys = numbers(queue.key for queue in queues)
        sums = await self._pool.ask_one(Q.sums_of_tallies, keys)
        async with target._pool.taken() as goal:
            await _begin(goal, mark, *[(Q.delete_tallies, (queue.key,)) for queue in queues])
            if sums:
                await ask(goal, [(Q.put_sums, tuple(int(number) for number in row)) for row in sums])
            await goal.execute("COMMIT")

    async def _copy(
        self, target: "Porting", tables: dict[str, str], erase: Sequence[Step], mark: Mark, *, rows: Step | None = None
    ) -> None:
        """Rows of one moment here, in one transaction there; `rows` asks for the journal rows that they point to."""
        async with self._pool.taken() as source, target._pool.taken() as goal:
            await source.execute(ONE_MOMENT[0])
            await _begin(goal, mark, *erase)
            if rows is not None:
                starts = numbers(start for (start,) in (await ask(source, [rows]))[0])
                (known,) = await ask(goal, [(Q.hold_rows, (starts,))])
                await _fill(source, goal, [start for start, has_lost in known if has_lost])
                present = numbers(start for start, _ in known)
                missing = f"start = ANY ('{starts}'::bigint[]) AND start <> ALL ('{present}'::bigint[])"
                await _copy_table(source, goal, "journal", missing)
                new = f"SELECT start FROM journal WHERE {missing}"  # noqa: S608 - ours
                added = await (await goal.execute(new.encode())).fetchall()
                await ask(goal, [(Q.retain_rows, (numbers(start for (start,) in added),))])
            for table, where in tables.items():
                await _copy_table(source, goal, table, where)
            await goal.execute("COMMIT")
            await source.execute("ROLLBACK")

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
        found = await self._pool.ask_one(Q.arrived_since, numbers(-key for key in keys), since + travel.MEMORY_MS)
        return [seq for (seq,) in found]

    async def delayed(self, keys: Sequence[int], horizon: int) -> list[int]:
        found = await self._pool.ask_one(Q.delayed_seqs, numbers(keys), horizon)
        return [seq for (seq,) in found]

    async def start_seqs(self, first: int) -> None:
        await self._pool.ask_one(Q.start_seqs, first)

    async def erase(self, queues: Sequence[Queue], mark: Mark) -> None:
        """Remove every trace of queues that do not live here, without a word in the journal."""
        for queue in queues:
            while await self._erase_some(queue.key, mark):
                pass
        async with self._pool.taken() as connection:
            tallies: list[Step] = [(Q.delete_tallies, (queue.key,)) for queue in queues]
            await _begin(connection, mark, *(erase for _, _, erase in _besides(queues)), *tallies)
            await connection.execute("COMMIT")

    async def _erase_some(self, key: int, mark: Mark) -> int:
        async with self._pool.taken() as connection:
            await _begin(connection, mark)
            gone = await ask(connection, [(sql, (key, STEP)) for sql in (Q.erase_singles, Q.erase_packs)])
            await connection.execute("COMMIT")
            return sum(map(len, gone))

    async def remove_records(self, records: Iterable[StoredRecord], mark: Mark) -> None:
        """Take records out of the control plane here; unlike a deleted queue, one that has left is not swept."""
        gone = list(records)

        def write(unit: Unit, version: int) -> None:
            unit.order("assert_mark", *mark)
            for record in gone:
                unit.order("remove_record", version, record.kind, record.tenant, record.id)

        async with self._records.changing():
            await self._records.submit(write)


async def _begin(connection: Connection, mark: Mark, *steps: Step) -> None:
    """A transaction that ends well only under the newest mark."""
    _, found, *_ = await ask(connection, [("BEGIN", ()), (Q.check_mark, mark), *steps])
    if not found:
        raise Unavailable("another node has taken over the move of the queue")


async def _fill(source: Connection, goal: Connection, starts: Sequence[int]) -> None:
    """Give rows the bodies back that nothing pointed to there until now."""
    for start in starts:
        asked: Step = (Q.journal_rows, (numbers([start]),))
        ((here,), (there,)) = [(await ask(connection, [asked]))[0] for connection in (source, goal)]
        if is_intact(here[2], here[1]) and is_intact(there[2], there[1]):  # else their messages are set aside
            events = join_bodies(there[2], here[2])
            await ask(goal, [(Q.rewrite_journal, (crc32(events), events, start)), (Q.keep_bodies, (None, start))])


def _besides(queues: Sequence[Queue]) -> list[Erase]:
    """The tables that tell of queues besides messages and figures, which rows, and how they are removed."""
    keys = [queue.key for queue in queues]
    both = [*keys, *(-key for key in keys)]  # under the negative keys it is known what has come from other shards
    named = "target = ANY (ARRAY[" + ", ".join(f"'{queue.id}'" for queue in queues) + "]::text[])"
    found = [(table, _among(keys)) for table in ("fifo", "job", "claim", "claim_part")]
    found += [("dedup", _among(both)), ("stage", named), ("publication", named)]
    return [(table, where, (f"DELETE FROM {table} WHERE {where}", ())) for table, where in found]  # noqa: S608 - ours


def _among(keys: Sequence[int]) -> str:
    return f"queue = ANY ('{numbers(keys)}'::int[])"


async def _copy_table(source: Connection, goal: Connection, table: str, where: str) -> None:
    columns = ", ".join(name for (name,) in (await ask(source, [(Q.columns, (table,))]))[0])
    out = f"COPY (SELECT {columns} FROM {table} WHERE {where}) TO STDOUT (FORMAT BINARY)"  # noqa: S608 - ours
    into = f"COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)"
    reader, writer = source.cursor(), goal.cursor()
    async with reader.copy(out.encode()) as rows, writer.copy(into.encode()) as copies:
        async for block in rows:
            await copies.write(block)


async def join(connection: Connection, number: int, seal_key: bytes | None) -> bytes:
    """The key of the store that the database belongs to, as its home or, with the key given, as shard `number`; an
    empty one is made to. Raises CannotOpen where it is, or belongs to, something else, or is part of a copy."""
    (notes,) = await ask(connection, [(Q.read_meta, (NOTE,))])
    refuse_part("the database", notes[0] if notes else None)
    if seal_key is not None and number:
        refused = await _join_shard(connection, number, seal_key)
    else:
        (found,) = await ask(connection, [(Q.read_meta, ("shard",))])
        refused = f"it is shard {int(bytes(found[0][0]))} of another store" if found else None
        if not refused:
            await ask(connection, [(Q.add_meta, ("seal_key", fresh_key()))])
    if refused:
        raise CannotOpen(f"the database cannot be used as shard {number}: {refused}")
    ((key,),) = (await ask(connection, [(Q.read_meta, ("seal_key",))]))[0]
    return bytes(key)


async def _join_shard(connection: Connection, number: int, seal_key: bytes) -> str | None:
    """A sentence when it cannot be done."""
    ((used,),) = (await ask(connection, [(Q.is_used, ())]))[0]
    if not used:
        await ask(connection, [(Q.join_shard, (number, seal_key)), (Q.start_seqs, (first_of(number) + 1,))])
    ((present,),) = (await ask(connection, [(Q.read_meta, ("shard",))]))[0] or [(None,)]
    ((key,),) = (await ask(connection, [(Q.read_meta, ("seal_key",))]))[0] or [(None,)]
    if present is None or key is None:
        return "it holds data of its own"
    if bytes(key) != seal_key:
        return "it belongs to another store"
    if int(bytes(present)) != number:
        return f"it is shard {int(bytes(present))}"
    return None
