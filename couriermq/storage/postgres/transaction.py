"""One transaction in the making: messages are loaded and locked, changed in memory, and written all together.

Whatever it takes to decide is asked for in as few round trips as possible; the last one writes the changes, then takes
the journal's lock, adds figures and events, and commits. So the one lock that everybody needs is never held while a
packet is on its way. Where nothing need be asked, that is the only one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg

from couriermq.core.chronicle import Chronicle
from couriermq.core.model import State
from couriermq.core.shards import OUTBOX
from couriermq.storage.postgres import bundles, held, writing
from couriermq.storage.postgres.arrays import numbers
from couriermq.storage.postgres.link import Connection, Rows, Step, ask
from couriermq.storage.postgres.marks import Look, Marks
from couriermq.storage.postgres.news import News
from couriermq.storage.postgres.queries import FACTS, Q
from couriermq.storage.postgres.rows import Row, read

CATALOG_LOCK = 0
STALE = "CQ001"
_CONTENT_AT = len(FACTS.split(", "))


class Change:
    """What a transaction adds to the figures of one queue."""

    __slots__ = ("acked", "bytes", "counts", "dead", "sent")

    def __init__(self) -> None:
        self.counts = [0, 0, 0]  # by State
        self.bytes = self.sent = self.acked = self.dead = 0

    def add(self, state: State, size: int, count: int = 1) -> None:
        self.counts[state] += count
        self.bytes += size
        self.sent += count

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


async def ask_known(
    connection: Connection, steps: list[Step], *, meanwhile: Callable[[], None] | None = None
) -> list[Rows]:
    """The answers to steps that fail where the control plane is not the one that the node knows."""
    try:
        return await ask(connection, steps, meanwhile=meanwhile)
    except psycopg.Error as error:
        if error.sqlstate == STALE:
            raise StaleCatalog from error
        raise


class Transaction(News):
    """Lives from `begin` to `commit`, or to the caller's rollback."""

    def __init__(self, connection: Connection, space: int, marks: Marks | None = None) -> None:
        super().__init__()
        self.connection = connection
        self.space = space
        self.events = Chronicle()
        self.looked: dict[int, Look] = {}
        """How queues were looked through for what is ready."""
        self.cut: set[int] = set()
        """Queues that have more ready messages than a commit may give out, in bytes."""
        self.marks = marks or Marks()
        self.locked: set[int] = set()
        self.changes: dict[int, Change] = {}
        self.delivered: list[int] = []
        """Originals whose copies were delivered."""
        self._opening: list[Step] | None = None
        self._rows: dict[int, Row] = {}
        self._changed: dict[int, Row] = {}
        self._transferred: dict[int, Row] = {}
        self._gone: list[int] = []
        self._new: list[tuple[Any, ...]] = []
        self._groups: dict[tuple[int, bytes], int] = {}
        self._dedup: dict[tuple[int, bytes], tuple[int, int, bytes]] = {}
        self._wrote = False
        self._waiting: dict[int, bundles.Waiting] = {}
        self._opened: dict[tuple[int, int], tuple[int, list[Row]]] = {}
        """By queue and seq, bundles that are locked: when the oldest message in it came, and all of them."""
        self._loose: dict[int, Row] = {}
        """Messages of opened bundles that nothing has happened to."""
        self._hands: dict[held.Place, held.Hand] = {}
        self._in_hand: dict[int, held.Hand] = {}
        """By seq, messages of opened hands that nothing has happened to."""
        self._leased: list[Sequence[Row]] = []
        """What has just been leased together."""
        self._acked: set[int] = set()
        """Messages that the database has removed already, when it was asked whether they could be."""

    # -- asking -----------------------------------------------------------------------------------------------

    def open(self, *, catalog_version: int, fifo_keys: Iterable[int]) -> None:
        """What comes first, whenever that is: the catalog is known to be current, and FIFO queues are locked."""
        keys = sorted(fifo_keys)
        self.locked.update(keys)
        self._opening = [(Q.enter, {"space": self.space, "version": catalog_version})]
        if keys:
            self._opening.append((Q.lock, {"space": self.space, "keys": numbers(keys)}))

    async def ask(self, *steps: Step) -> list[Rows]:
        """The answers to `steps`; the first time the transaction begins with it."""
        opening: list[Step] = [] if self._opening is None else [("BEGIN", {}), *self._opening]
        self._opening = None
        return (await ask_known(self.connection, [*opening, *steps]))[len(opening) :]

    async def lock(self, keys: Iterable[int]) -> None:
        """Lock further FIFO queues; may collide with another node's transaction, which then tries again."""
        missing = sorted(set(keys) - self.locked)
        if missing:
            await self.ask((Q.lock, {"space": self.space, "keys": numbers(missing)}))
            self.locked.update(missing)

    async def load(self, sql: str, **params: Any) -> list[Row]:
        return self.adopt(await self.after_writing(sql, **params))

    async def after_writing(self, sql: str, **params: Any) -> Rows:
        """Ask something that must see what has changed."""
        return (await self.ask(*self._writes(), (sql, params)))[-1]

    async def load_named(self, seqs: Iterable[int]) -> list[Row]:
        return await self.load(Q.named, seqs=numbers(seqs))

    async def having_copies(self, origins: Iterable[int]) -> set[int]:
        """Those of the messages that listeners have not yet got everywhere."""
        (found,) = await self.ask((Q.having_copies, {"origins": numbers(origins)}))
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

    def open_bundles(self, found: Rows) -> list[Row]:
        """The messages of bundles, which are locked."""
        rows: list[Row] = []
        for queue, seq, *packed in found:
            if (queue, seq) not in self._opened:
                fresh = bundles.unpack(queue, seq, *packed)
                self._opened[queue, seq] = fresh[0].entered_at, fresh
                for row in fresh:
                    self._rows[row.seq] = self._loose[row.seq] = row
            rows += [row for row in self._opened[queue, seq][1] if row.seq in self._loose]
        return rows

    def open_hands(self, found: Rows) -> list[Row]:
        """The messages of rows of `held`, which are locked."""
        rows: list[Row] = []
        for queue, lease_no, due_at, *facts, contents in found:
            place = queue, lease_no
            hand = self._hands.get(place)
            if hand is None:
                hand = self._hands[place] = held.Hand(place, due_at, *facts)
                for row in hand.rows.values():
                    self._rows[row.seq] = row
                    self._in_hand[row.seq] = hand
            if contents is not None:
                hand.fill(lease_no, contents)
            rows += hand.rows.values()
        return rows

    def adopt_acked(self, found: Rows) -> list[Row]:
        """Rows that were removed when they were asked for; each must be settled by an ack."""
        rows = self.adopt(found)
        self._acked.update(row.seq for row in rows)
        return rows

    @property
    def overtaken(self) -> bool:
        """Whether something was removed that nobody has acked after all."""
        return bool(self._acked)

    # -- changing ---------------------------------------------------------------------------------------------

    def change(self, key: int) -> Change:
        found = self.changes.get(key)
        if found is None:
            found = self.changes[key] = Change()
        return found

    def put(self, row: Row) -> None:
        """Its state, due time, attempts or lease number changed."""
        self._loosen(row)
        if row.state is State.READY:
            self.show(row.queue, row.due_at)
        if row.seq not in self._transferred:
            self._changed[row.seq] = row

    def _loosen(self, row: Row) -> None:
        """Take it out of what it is in with others; it is to have a row of its own."""
        if self._loose.pop(row.seq, None) is not None or self._let_go(row.seq):
            row.loose = True

    def _let_go(self, seq: int) -> bool:
        hand = self._in_hand.pop(seq, None)
        if hand is not None:
            hand.take(seq)
        return hand is not None

    def lease(self, rows: Sequence[Row], lease_nos: Iterator[int]) -> None:
        """Messages of one queue were leased, until the same instant: what comes from bundles stays together."""
        together = [row for row in rows if row.seq in self._loose]
        if len(together) < held.LEAST:
            together = []
        for part in held.parts(together):
            lease_no = held.number_of(next(lease_nos), len(part))
            for row in part:
                row.lease_no = lease_no
                del self._loose[row.seq]
            self._leased.append(part)
        kept = {row.seq for row in together}
        for row in rows:
            if row.seq not in kept:
                row.lease_no += 1
                self.put(row)

    def transfer(self, row: Row) -> None:
        """Its queue changed, and all else with it."""
        self._loosen(row)
        self.show(row.queue, row.due_at)
        self._changed.pop(row.seq, None)
        self._transferred[row.seq] = row

    def delete(self, row: Row) -> None:
        seq = row.seq
        if seq in self._acked:
            self._acked.discard(seq)
            self._wrote = True
        elif self._loose.pop(seq, None) is None and not self._let_go(seq) and not row.loose:
            self._gone.append(seq)
        self._rows.pop(seq, None)
        self._changed.pop(seq, None)
        self._transferred.pop(seq, None)

    def insert(self, values: tuple[Any, ...]) -> None:
        """A message of its own: see NEW."""
        self._new.append(values)

    def wait(self, key: int, oldest: int) -> bundles.Waiting:
        """Where messages go that wait with others, the oldest since then."""
        self.show(key, oldest)
        return self._waiting.setdefault(key, bundles.Waiting())

    def touch_group(self, key: int, grp: bytes | None, *, leased: int = 0) -> None:
        """A FIFO group has changed, `leased` of its messages more (or fewer) leased."""
        where = key, grp or b""
        self._groups[where] = self._groups.get(where, 0) + leased

    def remember(self, key: int, dedup_id: bytes, *, until_at: int, seq: int, message_id: bytes) -> None:
        self._dedup[key, dedup_id] = until_at, seq, message_id

    def made_ready(self, key: int, count: int = 1) -> None:
        self.ready[key] = self.ready.get(key, 0) + count

    def show(self, key: int, at: int) -> None:
        """Something can be had that came, or became ready, then; at once in here, elsewhere after the commit."""
        self.oldest[key] = min(at, self.oldest.get(key, at))
        self.marks.told(key, at)

    # -- writing ----------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Write what has changed, so that the next question sees it."""
        if steps := self._writes():
            await self.ask(*steps)

    async def commit(self, notice: Callable[["Transaction"], Step | None], also: Sequence[Step] = ()) -> bool:
        """Write the rest and make it all durable, in one round trip; whether there was anything to write."""
        steps = [*self._writes(), *also]
        self._show_left()
        if self.changes and max(self.changes) >= OUTBOX:
            self.events.keep_of_tenants()
        figures = [(key, *change.figures) for key, change in self.changes.items() if any(change.figures)]
        wrote = self._wrote or bool(steps or figures or self.events)
        if figures or self.events:
            steps.append(
                (
                    Q.seal,
                    {"space": self.space, **writing.columns(writing.FIGURES, figures), **writing.journal(self.events)},
                )
            )
        if wrote and (told := notice(self)) is not None:
            steps.append(told)
        if self._opening is None:
            await ask_known(self.connection, [*steps, ("COMMIT", {})])
        else:  # steps that are sent together are one transaction anyway
            await ask_known(self.connection, [*self._opening, *steps])
        return wrote

    def _show_left(self) -> None:
        """What was locked and can still be had: somebody may have passed over it meanwhile."""
        left: dict[int, list[int]] = {}
        for row in self._rows.values():
            if row.state is State.READY:
                left.setdefault(row.queue, []).append(row.due_at)
        for key, instants in left.items():
            self.show(key, min(instants))
            if key in self.looked:  # those who looked have what they wanted
                self.left[key] = len(instants)
            else:
                self.ready.setdefault(key, len(instants))

    def counts(self) -> Mapping[str, int]:
        return self.events.counts()

    @property
    def reached(self) -> set[int]:
        return self.looked.keys() | {row.queue for row in self._rows.values()}

    def _writes(self) -> list[Step]:
        steps = self._bundle_writes() + self._held_writes()
        if self._gone:
            steps.append((Q.delete_messages, {"seqs": numbers(self._gone)}))
        new = self._new + [writing.whole(row) for row in self._loosened()]
        if self._transferred:
            steps.append((Q.transfer_messages, writing.transfers(self._transferred.values())))
        if self._changed:
            steps.append((Q.change_messages, writing.states(self._changed.values())))
        if new:
            steps.append((Q.insert_messages, writing.new(new)))
        if self._dedup:
            steps.append((Q.put_dedup, writing.memories(self._dedup)))
        if self._groups:
            steps += writing.groups(self._groups)
        self._wrote = self._wrote or bool(steps)
        self._gone, self._new = [], []
        self._transferred, self._changed, self._dedup, self._groups = {}, {}, {}, {}
        return steps

    def _bundle_writes(self) -> list[Step]:
        """Bundles of which something was taken go; what is left in them waits on, with what has just come."""
        broken = {
            where: entered_at
            for where, (entered_at, rows) in self._opened.items()
            if any(row.seq not in self._loose for row in rows)
        }
        for key, seq in broken:
            _, rows = self._opened.pop((key, seq))
            left = [row for row in rows if self._loose.pop(row.seq, None) is not None]
            if left:
                self.wait(key, left[0].entered_at).add_rows(left)
        steps: list[Step] = []
        if broken:
            steps.append(bundles.delete(broken))
        if self._waiting:
            steps.append(bundles.insert(self._waiting))
        self._waiting = {}
        return steps

    def _held_writes(self) -> list[Step]:
        touched = {place: hand for place, hand in self._hands.items() if hand.is_touched}
        steps = list(held.write(touched))
        for place, hand in touched.items():
            hand.is_touched = False
            if not hand.rows:
                del self._hands[place]
        if self._leased:
            steps.append(held.insert(self._leased))
            self._leased = []
        return steps

    def _loosened(self) -> list[Row]:
        """Messages that came out of a bundle and are now to stand for themselves."""
        loosened = []
        for kept in (self._changed, self._transferred):
            for seq in [seq for seq, row in kept.items() if row.loose]:
                row = kept.pop(seq)
                row.loose = False
                loosened.append(row)
        return loosened
