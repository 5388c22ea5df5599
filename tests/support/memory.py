"""Rows in dictionaries: just enough of an engine to show what decisions come to."""

from collections.abc import Generator, Sequence
from typing import Any

from couriermq.core.events import Event
from couriermq.core.lifecycle import needs, receive, send, settle
from couriermq.core.lifecycle.expire import expire
from couriermq.core.lifecycle.needs import Found
from couriermq.core.lifecycle.rows import Content, Contents, Pack, Single
from couriermq.core.lifecycle.tally import Tally
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Ack, Draft, Job, Kind, Lease, Parcel, Queue, QueueSettings, Settlement, State
from couriermq.core.receipts import Sealer

NOW = 1_000_000


class Memory:
    """A store whose rows a test can look at."""

    def __init__(self, **settings: Any) -> None:
        self.sealer = Sealer(b"k" * 32)
        self.queues: dict[int, Queue] = {}
        self.packs: dict[int, Pack] = {}
        self.singles: dict[int, Single] = {}
        self.groups: dict[tuple[int, str], list[int | None]] = {}
        self.dedups: dict[tuple[int, str], tuple[int, int, str]] = {}
        self.tallies: dict[int, Tally] = {}
        self.others = (0,) * 7
        """The figures that other writers have added to each queue."""
        self.contents: dict[int, Content] = {}
        self.bodies: dict[int, bytes] = {}
        self.jobs: dict[str, Job] = {}
        self.claims: dict[int, needs.ClaimRow] = {}
        self.claim_parts: list[tuple[int, list[int]]] = []
        self.decided: tuple[str, int, int, tuple[int, list[int]]] | None = None
        """A claim that is to be acked or released."""
        self.orders: list[tuple[str, tuple[object, ...]]] = []
        self.events: list[Event] = []
        self.unit = Unit(self.tally)
        self.queue = self.add("orders", **settings)

    def add(self, name: str, kind: Kind = Kind.STANDARD, owner: str | None = None, **settings: Any) -> Queue:
        key = len(self.queues) + 1
        queue = Queue(
            key=key, id=name, tenant="t", name=name, kind=kind, settings=QueueSettings(**settings), owner=owner
        )
        self.queues[key] = queue
        return queue

    def queue_of_key(self, key: int) -> Queue | None:
        return self.queues.get(key)

    def queue_of_id(self, queue_id: str) -> Queue | None:
        return next((queue for queue in self.queues.values() if queue.id == queue_id), None)

    def tally(self, key: int) -> Tally:
        return self.tallies.setdefault(key, Tally(key))

    # -- the verbs --------------------------------------------------------------------------------------------

    def send(self, *drafts: Draft, queue: Queue | None = None, now: int = NOW) -> list[Any]:
        parcels = [Parcel(queue or self.queue, draft) for draft in drafts]
        return self.send_parcels(parcels, now=now)

    def send_parcels(self, parcels: Sequence[Parcel], *, now: int = NOW) -> list[Any]:
        order = send.Order(parcels, now, "root")
        (outcomes,) = self.decide(send.send(self.unit, [order], queues=self, sealer=self.sealer))
        return list(outcomes)

    def receive(
        self, limit: int = 10, *, lease_ms: int = 100, now: int = NOW, queue: Queue | None = None, **options: Any
    ) -> list[Lease]:
        order = receive.Order(limit, lease_ms, now, "root", **options)
        queue = queue or self.queue
        (leases,) = self.decide(receive.receive(self.unit, queue, [order], sealer=self.sealer, now=now))
        return list(leases)

    def settle(self, *settlements: Settlement, now: int = NOW, queue: Queue | None = None) -> list[Any]:
        order = settle.Order(settlements, now, "root")
        decision = settle.settle(self.unit, queue or self.queue, [order], queues=self, sealer=self.sealer)
        (outcomes,) = self.decide(decision)
        return list(outcomes)

    def ack(self, *leases: Lease, now: int = NOW) -> list[Any]:
        return self.settle(*(Ack(lease.receipt) for lease in leases), now=now)

    def expire(self, now: int, queue: Queue | None = None) -> None:
        self.decide(expire(self.unit, queue or self.queue, queues=self, now=now))

    def figures(self, queue: Queue | None = None) -> tuple[int, int, int, int]:
        """Ready, delayed, leased and bytes."""
        ready, delayed, leased, size, *_ = self.tally((queue or self.queue).key).figures
        return ready, delayed, leased, size

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    # -- the engine -------------------------------------------------------------------------------------------

    def decide(self, decision: Generator[Any, Any, Any]) -> Any:
        try:
            need = next(decision)
            while True:
                self._apply()
                need = decision.send(self._load(need))
        except StopIteration as end:
            self.unit.finish()
            self._apply()
            return end.value

    def _apply(self) -> None:
        changes = self.unit.changes
        for row in changes.journal:
            self.contents[row.start] = Content(row.runs, 0)
            self.events += [event for run in row.runs for event in run.events()]
        for pack in (*changes.new_packs, *changes.packs.values(), *changes.shrunk_packs.values()):
            self.packs[pack.last] = pack
        for last in changes.gone_packs:
            self.packs.pop(last, None)
        for singles in (changes.new_singles, changes.singles, changes.moved_singles):
            self.singles.update(singles)
        self.bodies.update(changes.bodies)
        for single in changes.gone_singles:
            del self.singles[single.seq]
        for queue, group, first, due_at in changes.new_groups:
            self.groups.setdefault((queue, group), [first, due_at, 0])
        for count, queue, group in changes.locked_groups:
            head, _, leased = self.groups[queue, group]
            self.groups[queue, group] = [head, None, (leased or 0) + count]
        for change in changes.groups:
            known = self.groups.pop((change.queue, change.group), [None, None, 0])
            if change.head is not None:
                held = (known[2] or 0) + change.leased
                self.groups[change.queue, change.group] = [change.head, None if held else change.due_at, held]
        for queue, name, *kept in changes.dedups:
            self.dedups[queue, name] = tuple(kept)  # type: ignore[assignment]
        self.orders += changes.orders
        changes.clear()

    def _load(self, need: Any) -> Any:
        match need:
            case needs.Content():
                return Contents(self.contents, self.bodies)
            case needs.Ready():
                by = 2**62 if need.by is None else need.by
                return self._found(lambda row: row.queue == need.queue and row.state == 1 and row.due_at <= by)
            case needs.Named():
                return Found(
                    [p for p in self._packs() if any(map(p.has, need.seqs)) and need.queue in (None, p.queue)],
                    [s for s in self._singles() if s.seq in need.seqs and need.queue in (None, s.queue)],
                )
            case needs.Ended():
                return self._found(
                    lambda row: (row.queue, row.state) == (need.queue, need.state) and row.due_at <= need.now
                )
            case needs.Aged():
                return self._found(lambda row: row.queue == need.queue and self._is_aged(row, need))
            case needs.InOrder():
                return self._found(lambda row: row.queue == need.queue)
            case needs.WaitingAgain():
                return self._found(lambda row: row.queue == need.queue and row.state == 0 and row.attempts > 0)
            case needs.NextDue():
                return self._next_due(need.queue)
            case needs.Copied():
                return {single.origin for single in self.singles.values()} & set(need.origins)
            case needs.Dedup():
                return {key: self.dedups[key] for key in need.keys if key in self.dedups}
            case needs.FreeGroups():
                return self._free_groups(need)
            case needs.InGroup():
                return self._group(need.queue, need.group)[: need.limit]
            case needs.GroupHead():
                line = self._group(need.queue, need.group)
                return (line[0].seq, line[0].due_at) if line else None
            case needs.Exclusive():
                return None
            case needs.Totals():
                return self.others
            case needs.JobOf():
                return self.jobs.get(need.name)
            case needs.ClaimOf():
                return self.claims.get(need.number)
            case needs.DecidedClaim():
                return self.decided
            case needs.PointingTo():
                return self._found(lambda row: row.start == need.start)
            case needs.ClaimPart():
                parts = [part for part in self.claim_parts if part[0] <= need.position < part[0] + len(part[1])]
                return parts[0] if parts else None
        raise NotImplementedError(need)

    def _free_groups(self, need: needs.FreeGroups) -> list[str]:
        by = 2**62 if need.by is None else need.by
        mine = [(group, head, at) for (key, group), (head, at, _) in self.groups.items() if key == need.queue]
        ready = {single.seq for single in self.singles.values() if single.state == State.READY}
        due = [group for group, _, at in mine if at is not None and at <= need.now]
        ahead = [group for group, head, at in mine if at is not None and need.now < at <= by and head in ready]
        return (due + ahead)[: need.limit]

    def _next_due(self, key: int) -> tuple[int | None, int | None, int | None]:
        found = self._found(lambda row: row.queue == key)
        rows: list[Pack | Single] = [*found.packs, *found.singles]
        ends = [row.due_at for row in rows if row.state != State.READY]
        own = [single.discard_at for single in found.singles if single.discard_at is not None]
        others = [row.entered_at for row in rows if not isinstance(row, Single) or row.discard_at is None]
        return min(ends, default=None), min(own, default=None), min(others, default=None)

    def _packs(self) -> list[Pack]:
        return sorted(self.packs.values(), key=lambda pack: pack.last)

    def _singles(self) -> list[Single]:
        return sorted(self.singles.values(), key=lambda single: single.seq)

    def _found(self, wanted: Any) -> Found:
        return Found(list(filter(wanted, self._packs())), list(filter(wanted, self._singles())))

    def _group(self, key: int, group: str) -> list[Single]:
        return [single for single in self._singles() if (single.queue, single.group) == (key, group)]

    @staticmethod
    def _is_aged(row: Pack | Single, need: needs.Aged) -> bool:
        if isinstance(row, Single) and row.discard_at is not None:
            return row.discard_at <= need.now
        return row.entered_at <= need.until


def plain(count: int) -> list[Draft]:
    """Messages that share everything but their bodies."""
    return [Draft(body=f"m{n}".encode()) for n in range(count)]
