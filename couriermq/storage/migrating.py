"""From one store to another of whatever engine: copied while the source is in use, then finished while it is not."""

from collections.abc import Callable, Sequence

import msgspec

from couriermq.core.chronicle import unpack
from couriermq.core.events import Event
from couriermq.core.lanes import first_of_lane
from couriermq.storage.base import CannotOpen
from couriermq.storage.dump import TABLES, Digest, Dump, DumpedCommit, Note, refuse_part

CHUNK = 1_000

Report = Callable[[str, int, int], None]
"""What is being done, how much of it is, and of how much."""


class Migration:
    """`copy` may run beside a server and be interrupted; `finish` needs the source for itself."""

    def __init__(self, source: Dump, target: Dump, report: Report) -> None:
        self._source = source
        self._target = target
        self._report = report

    async def copy(self) -> None:
        """Copy messages and journal as they are now; what an earlier run has copied stays."""
        note = await self._begin()
        total, events = await self._source.counts()
        done = 0
        if not note.copied:
            async for batch, cursor in self._source.messages(note.cursor):
                await self._target.put_messages(batch)
                note = msgspec.structs.replace(note, cursor=cursor)
                await self._target.write_note(note)
                done += len(batch)
                self._report("copying messages", done, total)
            await self._target.write_note(msgspec.structs.replace(note, copied=True))
        await self._copy_journal(events)

    async def _begin(self) -> Note:
        """Where an earlier run was, or an empty target; raises CannotOpen when the target is something else."""
        refuse_part("the source", await self._source.read_note())
        facts, note = await self._source.facts(), await self._target.read_note()
        if facts is None:
            raise CannotOpen("the source is not a store that was ever used")
        if note is None and await self._target.is_used():
            raise CannotOpen("the target already holds a store; migrate into an empty one")
        if note is not None and note.source != facts.seal_key:
            raise CannotOpen("the target holds part of another store; migrate into an empty one")
        await self._target.begin_writing()
        if note is None or await self._has_forgotten(note):
            await self._target.erase_messages()  # what has changed since is no longer known
            since = {lane: following for lane, (_, following) in (await self._source.spans()).items()}
            note = Note(source=facts.seal_key, since=since)
            await self._target.write_note(note)
        return note

    async def _has_forgotten(self, note: Note) -> bool:
        """Whether the source has trimmed what would tell the changes since the note was made."""
        spans = await self._source.spans()
        return any(note.since.get(lane, first_of_lane(lane)) < oldest for lane, (oldest, _) in spans.items())

    async def _copy_journal(self, total: int) -> None:
        copied, done = await self._target.spans(), 0
        for lane, (oldest, _) in (await self._source.spans()).items():
            _, start = copied.get(lane, (0, first_of_lane(lane)))
            async for commits in self._source.journal(max(start, oldest)):
                await self._target.put_journal(commits)
                done += sum(commit.count for commit in commits)
                self._report("copying events", done, total)

    async def finish(self, *, now: int) -> tuple[int, int]:
        """Copy what has changed since, and everything else; check both; how many messages and events there are."""
        note, facts = await self._target.read_note(), await self._source.facts()
        assert note is not None
        assert facts is not None
        if await self._has_forgotten(note):
            await self.copy()  # from the beginning, then, and nobody disturbs it
            note = await self._target.read_note() or note
        await self._copy_journal(0)
        # The source may have trimmed its journal since some of it was copied, or before it could be.
        for oldest, _ in (await self._source.spans()).values():
            await self._target.trim_journal(before=oldest)
        await self._copy_changes(note, now)
        for table in TABLES:
            await self._target.put_rows(table, self._source.rows(table))
        await self._target.put_facts(facts)
        found = await self._compare()
        await self._target.write_note(None)
        return found

    async def _copy_changes(self, note: Note, now: int) -> None:
        seqs: set[int] = set(await self._target.may_be_ready(now))
        for lane in await self._source.spans():
            async for commits in self._source.journal(note.since.get(lane, first_of_lane(lane))):
                seqs.update(event.seq for event in _decoded(commits) if event.seq is not None)
        changed = sorted(seqs)
        for first in range(0, len(changed), CHUNK):
            some = changed[first : first + CHUNK]
            gone = set(some)
            async for batch in self._source.named(some):
                await self._target.put_messages(batch)
                gone.difference_update(message.seq for message in batch)
            await self._target.put_messages([], gone=sorted(gone))
            self._report("copying changes", first + len(some), len(changed))

    # -- checking ---------------------------------------------------------------------------------------------

    async def _compare(self) -> tuple[int, int]:
        messages = [await self._digest_messages(store) for store in (self._source, self._target)]
        journals = [await _digest_journal(store) for store in (self._source, self._target)]
        for noun, (wanted, got) in (("messages", messages), ("commits of the journal", journals)):
            if wanted != got:
                raise CannotOpen(f"the copy has {got[0]} {noun} that are not the {wanted[0]} of the source")
        for table in TABLES:
            if await _digest_rows(self._source, table) != await _digest_rows(self._target, table):
                raise CannotOpen(f"the copy's table {table} is not that of the source")
        return await self._target.counts()

    async def _digest_messages(self, store: Dump) -> tuple[int, int]:
        digest, (total, _) = Digest(), await store.counts()
        async for batch, _ in store.messages(""):
            for message in batch:
                digest.add(message)
            self._report("checking", digest.count, total)
        return digest.value


async def _digest_journal(store: Dump) -> tuple[int, int]:
    digest = Digest()
    for oldest, _ in (await store.spans()).values():
        async for commits in store.journal(oldest):
            for commit in commits:
                digest.add(commit)
    return digest.value


async def _digest_rows(store: Dump, table: str) -> tuple[int, int]:
    digest = Digest()
    async for rows in store.rows(table):
        for row in rows:
            digest.add(row)
    return digest.value


def _decoded(commits: Sequence[DumpedCommit]) -> list[Event]:
    return [event for commit in commits for event in unpack(commit.events)]
