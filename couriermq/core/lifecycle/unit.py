"""What the decisions of one transaction have come to: changes of rows, events, counters and signals."""

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from couriermq.core.chronicle import Chronicle, Run, split_rows
from couriermq.core.flows import Flow, flow_of
from couriermq.core.lifecycle.needs import Deciding, Seqs, Totals
from couriermq.core.lifecycle.rows import ROW_BYTES, ROW_EVENTS, Content, Pack, Single
from couriermq.core.lifecycle.tally import Figures, Tally
from couriermq.core.model import Json, Queue, State

LEASED = int(State.LEASED)
NO_END = 2**63
LEASE_NO_END = 2**31
"""A lease's number has this end because receipts and rows hold it in 32 bits."""


class JournalRow(msgspec.Struct, gc=False):
    """A row of the journal: events from offset `start` on."""

    start: int
    count: int
    at: int
    runs: list[Run]
    is_private: bool
    first_seq: int | None = None
    """Of the messages whose bodies it holds."""
    last_seq: int | None = None


class GroupChange(msgspec.Struct, gc=False):
    """The new head of a FIFO group, and how many more of its messages are leased; no head means that it is empty."""

    queue: int
    group: str
    head: int | None
    due_at: int = 0
    leased: int = 0


class Changes:
    """Rows to write, in the order of the lists; an engine empties it when it has written them."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.journal: list[JournalRow] = []
        self.new_packs: list[Pack] = []
        self.packs: dict[int, Pack] = {}
        self.shrunk_packs: dict[int, Pack] = {}
        """Which have fewer messages than before and are otherwise as they were."""
        self.gone_packs: list[int] = []
        self.new_singles: dict[int, Single] = {}
        self.singles: dict[int, Single] = {}
        """Whose state, due_at, attempts, lease_no or turn have changed."""
        self.moved_singles: dict[int, Single] = {}
        """Whose queue has changed, and with it everything else."""
        self.gone_singles: list[Single] = []
        self.bodies: dict[int, bytes] = {}
        """By seq, the bodies of new singles that no journal row of this store holds."""
        self.new_groups: list[tuple[int, str, int, int]] = []
        """(queue, group, head, due_at) where the group does not exist yet."""
        self.locked_groups: list[tuple[int, int, str]] = []
        """(how many messages more are leased, queue, group)."""
        self.groups: list[GroupChange] = []
        self.dedups: list[tuple[int, str, int, int, str]] = []
        """(queue, id, until when, seq, message id)."""
        self.orders: list[tuple[str, tuple[object, ...]]] = []
        """Changes of jobs and claims by the names that `claim` gives them."""
        self.is_empty = True


class Unit:
    """One transaction in the making. A tally that is asked for is written where it has changed."""

    __slots__ = (
        "_before", "_find_tally", "_freed", "changes", "dues", "events", "flows", "kinds", "new_contents", "next_lease",
        "next_offset", "next_seq", "ready", "seq_end", "taken_bytes", "touched",
    )  # fmt: skip

    def __init__(
        self,
        find_tally: Callable[[int], Tally],
        *,
        next_seq: int = 1,
        seq_end: int = NO_END,
        next_offset: int = 0,
        next_lease: int = 1,
    ) -> None:
        self.changes = Changes()
        self.events = Chronicle()
        self.ready: dict[int, int] = {}
        """By the key of a queue: how many of its messages have become ready."""
        self.dues: list[tuple[int, int]] = []
        self.touched: dict[int, Tally] = {}
        self.next_seq = next_seq
        self.seq_end = seq_end
        """Seqs up to here are this unit's; without an end where nobody else gives out any."""
        self.next_offset = next_offset
        self.next_lease = next_lease
        self.taken_bytes = 0
        """Of messages that receivers get; they are in memory until the commit is durable."""
        self.new_contents: dict[int, Content] = {}
        """By their starts, journal rows that messages of this transaction point to; for the engine to keep at hand."""
        self.kinds: Counter[str] = Counter()
        """How much has happened, by kind of event."""
        self.flows: dict[Flow, int] = {}
        """The same by queue, principal and second."""
        self._find_tally = find_tally
        self._before: dict[int, tuple[Figures, int]] = {}
        self._freed: dict[int, tuple[int, int]] = {}
        """By the key of a queue with `max_leased`: that limit, and how many messages fewer are leased."""

    # -- figures and signals ----------------------------------------------------------------------------------

    def tally(self, key: int) -> Tally:
        tally = self.touched.get(key)
        if tally is None:
            tally = self.touched[key] = self._find_tally(key)
            self._before[key] = (tally.figures, tally.next_due)
        return tally

    def changed_tallies(self) -> list[tuple[int, ...]]:
        """The queue and its figures, where they differ from what is stored."""
        return [
            (key, *figures) for key, tally in self.touched.items() if (figures := tally.figures) != self._before[key][0]
        ]

    def undo(self) -> None:
        """Put the figures back as they were."""
        for key, (figures, next_due) in self._before.items():
            tally = self._find_tally(key)
            tally.figures, tally.next_due = figures, next_due

    def due(self, tally: Tally, at: int) -> None:
        """Something will happen to the queue at `at`."""
        if at < tally.next_due:
            tally.next_due = at
            self.dues.append((at, tally.key))

    def made_ready(self, key: int, count: int = 1) -> None:
        self.ready[key] = self.ready.get(key, 0) + count

    def recount(self, queue: Queue, source: int, target: int, count: int = 1) -> None:
        """Messages of a queue go from one state into another."""
        self.tally(queue.key).shift(source, target, count)
        if queue.settings.max_leased is not None:
            self._free(queue.key, queue.settings.max_leased, count * ((source == LEASED) - (target == LEASED)))

    def count_out(self, queue: Queue, state: int, size: int, count: int = 1) -> None:
        """Messages leave a queue."""
        self.tally(queue.key).remove(state, size, count)
        if state == LEASED and queue.settings.max_leased is not None:
            self._free(queue.key, queue.settings.max_leased, count)

    def _free(self, key: int, most: int, count: int) -> None:
        _, freed = self._freed.get(key, (0, 0))
        self._freed[key] = most, freed + count

    def _tell_of_room(self) -> None:
        """Receivers that a limit has kept waiting hear that it is not reached any more."""
        for key, (most, freed) in self._freed.items():
            tally = self.touched.get(key)
            if tally is None:  # the queue is gone, with all that it had
                continue
            room = freed if tally.is_partial else min(freed, most - tally.counts[LEASED], tally.counts[State.READY])
            if room > self.ready.get(key, 0):
                self.ready[key] = room
        self._freed.clear()

    def totals(self, key: int) -> Deciding[Figures]:
        """The exact figures of a queue; other transactions that ask for them wait until the commit."""
        own = self.tally(key).figures
        others: Figures = yield Totals(key)
        return tuple(map(sum, zip(own, others, strict=True)))  # type: ignore[return-value]

    def reserve_seqs(self, count: int, *, in_order: bool) -> Deciding[None]:
        """See to it that the next seqs are there; `in_order`: after all that any node has given out before."""
        if self.seq_end != NO_END and (in_order or self.next_seq + count > self.seq_end):
            self.next_seq, self.seq_end = yield Seqs(count, in_order)

    def take_lease_no(self) -> int:
        number = self.next_lease
        self.next_lease = number % (LEASE_NO_END - 1) + 1
        return number

    # -- rows -------------------------------------------------------------------------------------------------

    def journal(self, runs: Iterable[Run]) -> list[JournalRow]:
        """Give events their offsets and rows; what belongs to no tenant is nobody's history."""
        rows = []
        told = [run for run in runs if run.tenant]
        for part in split_rows(told, most_events=ROW_EVENTS, most_bytes=ROW_BYTES):
            count = sum(map(len, part))
            is_private = any(run.private is not None for run in part)
            rows.append(JournalRow(self.next_offset, count, part[-1].ats[-1], part, is_private))
            self.next_offset += count
            for run in part:
                self.kinds[run.kind] += len(run)
                flow = flow_of(run)
                self.flows[flow] = self.flows.get(flow, 0) + len(run)
        self.changes.journal += rows
        self.changes.is_empty = False
        return rows

    def finish(self) -> None:
        """Give the events that are noted so far their rows, and those who wait for a lease a sign."""
        if self.events:
            self.journal(self.events.runs)
            self.events.clear()
        if self._freed:
            self._tell_of_room()

    def put_pack(self, pack: Pack) -> None:
        """The state of a stored pack has changed."""
        self.changes.is_empty = False
        self.changes.shrunk_packs.pop(pack.last, None)
        self.changes.packs[pack.last] = pack

    def shrink_pack(self, pack: Pack) -> None:
        """A stored pack has fewer messages; one that is empty goes."""
        changes = self.changes
        changes.is_empty = False
        if not pack.remaining:
            changes.packs.pop(pack.last, None)
            changes.shrunk_packs.pop(pack.last, None)
            changes.gone_packs.append(pack.last)
        elif pack.last not in changes.packs:
            changes.shrunk_packs[pack.last] = pack

    def add_pack(self, pack: Pack) -> None:
        self.changes.new_packs.append(pack)
        self.changes.is_empty = False

    def put(self, single: Single) -> None:
        """The state, lease or turn of a single has changed, or it is a row of its own from now on."""
        changes = self.changes
        changes.is_empty = False
        if single.is_stored:
            if single.seq not in changes.moved_singles and single.seq not in changes.new_singles:
                changes.singles[single.seq] = single
        else:
            changes.new_singles[single.seq] = single
            single.is_stored = True

    def put_moved(self, single: Single) -> None:
        changes = self.changes
        changes.is_empty = False
        if single.is_stored and single.seq not in changes.new_singles:
            changes.moved_singles[single.seq] = single
            changes.singles.pop(single.seq, None)
        else:
            changes.new_singles[single.seq] = single
            single.is_stored = True

    def drop(self, single: Single) -> None:
        changes = self.changes
        changes.is_empty = False
        changes.singles.pop(single.seq, None)
        changes.moved_singles.pop(single.seq, None)
        if changes.new_singles.pop(single.seq, None) is None and single.is_stored:
            changes.gone_singles.append(single)

    def put_group(self, change: GroupChange) -> None:
        self.changes.groups.append(change)
        self.changes.is_empty = False

    def order(self, name: str, *values: object) -> None:
        self.changes.orders.append((name, values))
        self.changes.is_empty = False

    # -- events -----------------------------------------------------------------------------------------------

    def note(
        self, kind: str, at: int, queue: Queue, single: Single, principal: str | None = None,
        detail: dict[str, Json] | None = None,
    ) -> None:  # fmt: skip
        """Something has happened to a message: its next turn."""
        single.turn += 1
        self.events.note(
            kind, at, queue, single.seq, single.id, single.attempts, single.size, principal, detail,
            turn=single.turn, sent_at=single.sent_at,
        )  # fmt: skip
