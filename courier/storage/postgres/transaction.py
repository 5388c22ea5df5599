"""One transaction in the making: messages are loaded and locked, changed in memory, and written all together.

Whatever it takes to decide is asked for in as few round trips as possible; the last one writes the changes, then takes
the journal's lock, adds figures and events, and commits. So the one lock that everybody needs is never held while a
packet is on its way.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from courier.core.events import Event
from courier.core.model import State
from courier.core.shards import OUTBOX
from courier.storage.postgres.arrays import blobs, numbers, truths
from courier.storage.postgres.link import Connection, Rows, Step, ask
from courier.storage.postgres.queries import FACTS, Q
from courier.storage.postgres.rows import Row, read

CATALOG_LOCK = 0
JOURNAL_LOCK = -1
MOST_EVENTS = 5_000
"""In one row of the journal."""
_CONTENT_AT = len(FACTS.split(", "))

_encode = msgspec.msgpack.Encoder().encode


class Change:
    """What a transaction adds to the figures of one queue."""

    __slots__ = ("acked", "bytes", "counts", "dead", "sent")

    def __init__(self) -> None:
        self.counts = [0, 0, 0]  # by State
        self.bytes = self.sent = self.acked = self.dead = 0

    def add(self, state: State, size: int) -> None:
        self.counts[state] += 1
        self.bytes += size
        self.sent += 1

    def remove(self, state: State, size: int) -> None:
        self.counts[state] -= 1
        self.bytes -= size

    def shift(self, source: State, target: State) -> None:
        self.counts[source] -= 1
        self.counts[target] += 1

    @property
    def figures(self) -> tuple[int, ...]:
        """ready, delayed, leased, bytes, sent, acked, dead."""
        delayed, ready, leased = self.counts
        return ready, delayed, leased, self.bytes, self.sent, self.acked, self.dead


class StaleCatalog(Exception):
    """Another node has changed the control plane: what this one believes must be brought up to date first."""


class Transaction:
    """Lives from `begin` to `commit`, or to the caller's rollback."""

    def __init__(self, connection: Connection, space: int) -> None:
        self.connection = connection
        self.space = space
        self.events: list[Event] = []
        self.ready: dict[int, int] = {}
        self.dues: dict[int, int] = {}
        self.locked: set[int] = set()
        self.changes: dict[int, Change] = {}
        self.delivered: list[int] = []
        """Originals whose copies were delivered."""
        self._rows: dict[int, Row] = {}
        self._changed: dict[int, Row] = {}
        self._transferred: dict[int, Row] = {}
        self._gone: list[int] = []
        self._new: list[tuple[Any, ...]] = []
        self._groups: dict[tuple[int, bytes], int] = {}
        self._dedup: dict[tuple[int, bytes], tuple[int, int, bytes]] = {}
        self._wrote = False

    # -- asking -----------------------------------------------------------------------------------------------

    async def begin(
        self, *, catalog_version: int | None, fifo_keys: Iterable[int], steps: Sequence[Step]
    ) -> list[Rows]:
        """Start, with the FIFO queues locked and the catalog known to be current; the answers to `steps`."""
        keys = sorted(fifo_keys)
        self.locked.update(keys)
        opening: list[Step] = [
            ("BEGIN", {}),
            (Q.share_catalog, {"space": self.space}),
            (Q.catalog_version, {}),
            *([(Q.lock, {"space": self.space, "keys": numbers(keys)})] if keys else []),
        ]
        answers = await ask(self.connection, [*opening, *steps])
        if catalog_version is not None and answers[2][0][0] != catalog_version:
            raise StaleCatalog
        return answers[len(opening) :]

    async def lock(self, keys: Iterable[int]) -> None:
        """Lock further FIFO queues; may collide with another node's transaction, which then tries again."""
        missing = sorted(set(keys) - self.locked)
        if missing:
            await ask(self.connection, [(Q.lock, {"space": self.space, "keys": numbers(missing)})])
            self.locked.update(missing)

    async def load(self, sql: str, **params: Any) -> list[Row]:
        await self.flush()
        (found,) = await ask(self.connection, [(sql, params)])
        return self.adopt(found)

    async def load_named(self, seqs: Iterable[int]) -> list[Row]:
        return await self.load(Q.named, seqs=numbers(seqs))

    async def having_copies(self, origins: Iterable[int]) -> set[int]:
        """Those of the messages that listeners have not yet got everywhere."""
        (found,) = await ask(self.connection, [(Q.having_copies, {"origins": numbers(origins)})])
        return {origin for (origin,) in found}

    def adopt(self, found: Rows) -> list[Row]:
        """Rows as they stand in this transaction: one that is known keeps what was done to it."""
        return [self._known(facts) for facts in found]

    def _known(self, facts: tuple[Any, ...]) -> Row:
        row = self._rows.get(facts[0])
        if row is None:
            row = self._rows[facts[0]] = read(facts)
        elif row.content is None and len(facts) > _CONTENT_AT:
            row.content = facts[_CONTENT_AT]
        return row

    def is_gone(self, row: Row) -> bool:
        return row.seq not in self._rows

    # -- changing ---------------------------------------------------------------------------------------------

    def change(self, key: int) -> Change:
        found = self.changes.get(key)
        if found is None:
            found = self.changes[key] = Change()
        return found

    def put(self, row: Row) -> None:
        """Its state, due time, attempts or lease number changed."""
        if row.seq not in self._transferred:
            self._changed[row.seq] = row

    def transfer(self, row: Row) -> None:
        """Its queue changed, and all else with it."""
        self._changed.pop(row.seq, None)
        self._transferred[row.seq] = row

    def delete(self, row: Row) -> None:
        self._gone.append(row.seq)
        for kept in (self._rows, self._changed, self._transferred):
            kept.pop(row.seq, None)

    def insert(self, values: tuple[Any, ...]) -> None:
        """seq, queue, state, size, due_at, entered_at, discard_at, origin, given, id, grp, content."""
        self._new.append(values)

    def touch_group(self, key: int, grp: bytes | None, *, leased: int = 0) -> None:
        """A FIFO group has changed, `leased` of its messages more (or fewer) leased."""
        where = key, grp or b""
        self._groups[where] = self._groups.get(where, 0) + leased

    def remember(self, key: int, dedup_id: bytes, *, until_at: int, seq: int, message_id: bytes) -> None:
        self._dedup[key, dedup_id] = until_at, seq, message_id

    def made_ready(self, key: int, count: int = 1) -> None:
        self.ready[key] = self.ready.get(key, 0) + count

    def due(self, key: int, at: int) -> None:
        """Something will happen to the queue at `at`."""
        self.dues[key] = min(at, self.dues.get(key, at))

    # -- writing ----------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Write what has changed, so that the next question sees it."""
        if steps := self._writes():
            await ask(self.connection, steps)

    async def commit(self, *, notice: Step | None, also: Sequence[Step] = ()) -> bool:
        """Write the rest and make it all durable, in one round trip; whether there was anything to write."""
        steps = [*self._writes(), *also]
        if self.changes and max(self.changes) >= OUTBOX:
            self.events = [event for event in self.events if event.tenant]
        figures = [(key, *change.figures) for key, change in self.changes.items() if any(change.figures)]
        wrote = self._wrote or bool(steps or figures or self.events)
        if figures or self.events:
            steps.append((Q.lock, {"space": self.space, "keys": numbers([JOURNAL_LOCK])}))
        if figures:
            steps.append((Q.add_tallies, _columns(_FIGURES, figures)))
        steps += _journal(self.events)
        if notice is not None and wrote:
            steps.append(notice)
        await ask(self.connection, [*steps, ("COMMIT", {})])
        return wrote

    def _writes(self) -> list[Step]:
        steps: list[Step] = []
        if self._gone:
            steps.append((Q.delete_messages, {"seqs": numbers(self._gone)}))
        if self._transferred:
            steps.append((Q.transfer_messages, _transfers(self._transferred.values())))
        if self._changed:
            steps.append((Q.change_messages, _states(self._changed.values())))
        if self._new:
            steps.append((Q.insert_messages, _new(self._new)))
        if self._dedup:
            steps.append((Q.put_dedup, _memories(self._dedup)))
        if self._groups:
            steps += _groups(self._groups)
        self._wrote = self._wrote or bool(steps)
        self._gone, self._new = [], []
        self._transferred, self._changed, self._dedup, self._groups = {}, {}, {}, {}
        return steps


def _journal(events: Sequence[Event]) -> list[Step]:
    """A row for the events of a commit; of a very large commit several, so that a reader need not take all at once."""
    steps: list[Step] = []
    for first in range(0, len(events), MOST_EVENTS):
        part = events[first : first + MOST_EVENTS]
        blob = _encode(part)
        row = {"count": len(part), "at": part[-1].at, "size": len(blob), "events": blob}
        steps.append((Q.insert_journal, row))
    return steps


_FIGURES = ("keys", "ready", "delayed", "leased", "bytes", "sent", "acked", "dead")


def _columns(names: Sequence[str], rows: Sequence[tuple[int, ...]]) -> dict[str, str]:
    return {name: numbers(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _states(rows: Iterable[Row]) -> dict[str, str]:
    facts = [(row.seq, int(row.state), row.due_at, row.attempts, row.lease_no) for row in rows]
    return _columns(("seqs", "states", "due_ats", "attempts", "lease_nos"), facts)


def _transfers(rows: Iterable[Row]) -> dict[str, str]:
    chosen = list(rows)
    return {
        **_states(chosen),
        "queues": numbers(row.queue for row in chosen),
        "entered_ats": numbers(row.entered_at for row in chosen),
        "grps": blobs(row.grp for row in chosen),
        "deaths": blobs(row.death for row in chosen),
    }


def _new(rows: list[tuple[Any, ...]]) -> dict[str, str]:
    seqs, queues, states, sizes, due_ats, entered_ats, discard_ats, origins, givens, ids, grps, contents = zip(
        *rows, strict=True
    )
    return {
        "seqs": numbers(seqs), "queues": numbers(queues), "states": numbers(states), "sizes": numbers(sizes),
        "due_ats": numbers(due_ats), "entered_ats": numbers(entered_ats), "discard_ats": numbers(discard_ats),
        "origins": numbers(origins), "givens": truths(givens), "ids": blobs(ids), "grps": blobs(grps),
        "contents": blobs(contents),
    }  # fmt: skip


def _memories(dedup: dict[tuple[int, bytes], tuple[int, int, bytes]]) -> dict[str, str]:
    return {
        "keys": numbers(key for key, _ in dedup),
        "dedup_ids": blobs(dedup_id for _, dedup_id in dedup),
        "until_ats": numbers(until_at for until_at, _, _ in dedup.values()),
        "seqs": numbers(seq for _, seq, _ in dedup.values()),
        "ids": blobs(message_id for _, _, message_id in dedup.values()),
    }


def _groups(groups: dict[tuple[int, bytes], int]) -> list[Step]:
    where = {"keys": numbers(key for key, _ in groups), "grps": blobs(grp for _, grp in groups)}
    return [(Q.drop_groups, where), (Q.refresh_groups, {**where, "leased": numbers(groups.values())})]
