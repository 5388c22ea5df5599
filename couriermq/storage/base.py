"""The Store protocol: what an engine must do, and nothing about how.

Every method that changes something returns only after the change and its journal events are on disk, in one
transaction. A batch gets one outcome an item, in the order of the items; an item that fails leaves the others done.
Before an engine looks at a queue it applies what time has done to it: delays and leases that ended, retention.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from couriermq.core.chronicle import Commit
from couriermq.core.errors import CourierError, OffsetGone
from couriermq.core.events import Entry, Event, EventKind
from couriermq.core.flows import Flows
from couriermq.core.incarnations import Identity, Stamp
from couriermq.core.jumps import Jump
from couriermq.core.lifecycle.browse import Filter
from couriermq.core.lifecycle.cursor import Moved
from couriermq.core.model import (
    Claim,
    Counters,
    Job,
    Lease,
    Message,
    Page,
    Parcel,
    Publication,
    Queue,
    Sent,
    Settled,
    Settlement,
    Slice,
)
from couriermq.core.removal import Removable, Removal
from couriermq.core.sharding import Relocation, Shard, ShardFigures
from couriermq.core.shards import Newest

__all__ = ["Filter", "Moved", "Parcel"]  # nouns of the core that the Store protocol speaks of

SWEEP_COUNT = 200
"""Messages of a deleted queue that one step removes."""
LAST_EVENTS = 100
"""Events of a journal that tell the newest instant; the very last may tell of a lease that ended earlier."""
SWEEP_MS = 20
"""From one such step to the next, so that other work goes on between them."""


class Directory(Protocol):
    """Who tells the store what a queue's settings are now; a queue that was deleted is None."""

    def queue_of_key(self, key: int) -> Queue | None: ...

    def queue_of_id(self, queue_id: str) -> Queue | None: ...

    def learn(self, *, put: Sequence["StoredRecord"], delete: Sequence["StoredRecord"]) -> None:
        """Another node has changed these; what is known already is no news."""


class Signals(Protocol):
    """Whom the store tells what has become possible; called in the event loop, after the commit."""

    def ready(self, queue_key: int, count: int) -> None:
        """`count` messages of the queue have just become ready."""

    def is_awaited(self, queue_key: int, count: int) -> bool:
        """Whether at least `count` receivers wait at this node for messages of the queue."""

    def journaled(self) -> None:
        """The journal has grown; commits of other nodes may go unannounced."""

    def due(self, at: int) -> None:
        """Time will change something at `at`; call `advance` then."""

    def duties_changed(self) -> None:
        """This node holds other duties than before."""

    def failed(self, reason: str) -> None:
        """The store can commit nothing any more and the process has to end; those who wait get Unavailable."""

    def happened(self, flows: Flows) -> None:
        """What a commit of this node has done, in numbers; an engine that does not tell is counted by its tables."""


class Chunk(msgspec.Struct, frozen=True):
    """Some parcels of a stage, and the events to journal with them, packed: see `storage.staging`."""

    count: int
    """How many messages their sender brought: copies for listeners do not count."""
    keys: frozenset[int]
    """Of the queues that they are for."""
    parcels: bytes


class Staged(msgspec.Struct, frozen=True):
    """What stages hold that were not published yet."""

    stages: list[tuple[str, str]]
    """Each by its target and name."""
    message_count: int
    byte_count: int


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One thing of the control plane as the store keeps it: the catalog knows what the document means.

    `slot` is what must be unique in the whole store, such as `acme/destination/orders`.
    """

    kind: str
    tenant: str
    id: str
    document: bytes
    slot: str | None = None


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A lane of the journal as it stands: offsets `oldest` up to, not including, `next` can be read, but for jumps."""

    oldest: int
    next: int


class CannotOpen(Exception):
    """The store cannot be used at all; its text says why and what to do. Raised by `open` only."""


class RoutesChanged(Exception):
    """Another node has changed the control plane since parcels were addressed: nothing is stored, address them anew."""


class EventLog(Protocol):
    """What can be read of the past of all shards: their journals, or those and what was sealed of them before."""

    @property
    def jumps(self) -> Sequence[Jump]:
        """Where offsets jump because a new incarnation of the store began."""

    async def spans(self) -> dict[int, Span]:
        """What can be read of each lane, in ascending order; lanes are added while the store runs."""

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        """Durable events of a lane from `start` on, at least one if there is any; raises OffsetGone if trimmed."""

    async def offsets_at(self, at: int) -> dict[int, int]: ...


class ShardLog(Protocol):
    """The journal of one shard, which can be trimmed; `Store` says what the methods do."""

    @property
    def identity(self) -> Identity:
        """Which store the shard is for itself, and its incarnations."""

    @property
    def jumps(self) -> Sequence[Jump]: ...

    async def spans(self) -> dict[int, Span]: ...

    async def read_events(self, *, start: int, limit: int) -> list[Entry]: ...

    async def read_commits(self, *, start: int, limit: int) -> list[Commit]: ...

    async def offsets_at(self, at: int) -> dict[int, int]: ...

    async def offset_keeping(self, size: int, lane: int) -> int: ...

    async def trim_events(self, *, before: int) -> int: ...

    async def tidy(self) -> None: ...

    def holds(self, duty: str) -> bool: ...


class Store(Protocol):
    """A durable home for queues. An engine's constructor takes where; `open` gives it what it must know."""

    async def open(self, *, directory: Directory, signals: Signals) -> None: ...

    async def close(self) -> None:
        """Finish what is in hand and let go of the files."""

    @property
    def identity(self) -> Identity:
        """Which store it is, and its incarnations; known once it is open."""

    @property
    def stamp(self) -> Stamp:
        """What readers of the journal compare; another one as soon as any part of the store was restored."""

    @property
    def jumps(self) -> Sequence[Jump]:
        """Where the offsets of its journals jump."""

    def holds(self, duty: str) -> bool:
        """Whether a duty is this node's now (see `core.duties`); a store that nobody shares leaves all to its node."""

    def resign(self) -> None:
        """Leave all duties to others from now on: this node is about to stop."""

    # -- control plane ----------------------------------------------------------------------------------------

    def changing(self) -> AbstractAsyncContextManager[None]:
        """While inside, nobody else changes the control plane, and the directory has learned all that others did."""

    async def catch_up(self) -> bool:
        """Have the directory learn all that other nodes did, as far as can be known; whether there was anything."""

    async def load_records(self) -> list[StoredRecord]:
        """Everything of the control plane; the catalog keeps it in memory."""

    async def next_key(self) -> int:
        """A queue key that was never given out before."""

    async def change_records(
        self, *, put: Sequence[StoredRecord] = (), delete: Sequence[StoredRecord] = (), events: Sequence[Event] = ()
    ) -> None:
        """Write and remove records together; raises AlreadyExists when a slot is taken by another id."""

    # -- data plane -------------------------------------------------------------------------------------------

    async def send(
        self, parcels: Sequence[Parcel], *, now: int, principal: str, events: Sequence[Event] = ()
    ) -> list[Sent | CourierError]:
        """Store all parcels in one transaction; `events` are journaled with them. Raises RoutesChanged."""

    async def receive(
        self, queue: Queue, *, limit: int, lease_ms: int, now: int, principal: str, group_limit: int | None = None
    ) -> list[Lease]:
        """Lease up to `limit` ready messages; of a FIFO queue at most `group_limit` of each group.

        Together they fit `limits.Room`. Where that leaves ready messages behind, `Signals.ready` is called again. What
        was leased for a caller that has been cancelled is given back as untried.
        """

    async def settle(
        self, queue: Queue, settlements: Sequence[Settlement], *, now: int, principal: str
    ) -> list[Settled | CourierError]:
        """Ack, release or extend, each by its receipt."""

    async def browse(self, queue: Queue, *, now: int, where: Filter, limit: int, after: str | None = None) -> Page:
        """Look without leasing; a filtered page may hold fewer than `limit` and still have a `next`."""

    async def read_message(self, queue: Queue, *, message_id: str, now: int) -> Message:
        """The oldest live message of that id; raises MessageNotFound."""

    async def remove(
        self, queue: Queue, *, seqs: Sequence[int], which: Removable, kind: str, now: int, principal: str
    ) -> Removal:
        """Remove those of the messages that may go in the state in which they are (event `kind`: purged, cancelled)."""

    async def purge(
        self, queue: Queue, *, upto: Newest, after: str | None, limit: int, now: int, principal: str
    ) -> Moved:
        """Remove messages that `upto` covers, looking at up to `limit` after a cursor."""

    async def move(
        self,
        source: Queue,
        target: Queue | None,
        *,
        seqs: Sequence[int] | None,
        upto: Newest,
        after: str | None,
        limit: int,
        kind: str,
        now: int,
        principal: str,
    ) -> Moved:
        """Move messages that are not leased, attempts reset, looking at up to `limit` of them after a cursor.

        No target means where each one died; one that died nowhere, or in a queue that is gone, stays.
        """

    async def hasten(
        self, queue: Queue, *, seqs: Sequence[int] | None = None, after: str | None, limit: int, now: int
    ) -> Moved:
        """Make up to `limit` messages ready that wait for another attempt, the longest wait first, after a cursor.

        With `seqs` exactly these of them, in one commit; they keep the attempts that they have used up.
        What waits because its sender wants it to has not been tried yet, and goes on waiting.
        """

    async def counters(self, queue: Queue, *, now: int) -> Counters: ...

    async def counters_of(self, queues: Sequence[Queue], *, now: int) -> dict[int, Counters]:
        """The counters of many queues by their keys, in few round trips; a queue that is gone is left out."""

    async def last_seq(self, queue: Queue) -> int:
        """The seq of the newest message that was ever sent where the queue is."""

    async def advance(self, *, now: int) -> int | None:
        """Apply what time has done to every queue; returns when there is more to do, if ever. Callers take turns.

        Of the messages of a deleted queue, one call removes no more than SWEEP_COUNT.
        """

    # -- claims -----------------------------------------------------------------------------------------------

    async def open_job(self, queue: Queue, *, job: str, now: int) -> Job:
        """Begin a new epoch of a job, which is made if need be: whoever holds an earlier one is Fenced from now on."""

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
        """Lease up to `limit` messages without end under a number; asked again, the answer is the same claim.

        Only messages (of a FIFO queue: groups) that could be had at `ready_by` are taken, however many come after.

        With nothing ready nothing is kept and the claim's count is 0. Raises Fenced, ClaimGone for a number that is
        done.
        """

    async def read_claim(self, queue: Queue, *, job: str, number: int, epoch: int, start: int, stop: int) -> Slice:
        """The messages at positions `start` up to `stop` that fit one response, without those that are gone.

        Raises Fenced, ClaimGone.
        """

    async def ack_claims(self, queue: Queue, *, job: str, upto: int, epoch: int, now: int, principal: str) -> int:
        """Claims up to a number are done: ack what is left in them; returns how many. Raises Fenced."""

    async def free_job(self, queue: Queue, *, job: str, now: int, principal: str) -> int:
        """End the job's epoch and release all that it holds; returns how many. Raises JobNotFound."""

    async def jobs(self, queue: Queue) -> list[Job]:
        """Every job that the queue knows, with the claims that it holds, by name."""

    # -- staged messages --------------------------------------------------------------------------------------

    async def stage(self, target: str, *, stage: str, part: int, chunks: Sequence[Chunk], now: int) -> None:
        """Keep a part of a stage; one that is there already stays as it is, and its stage is renewed."""

    async def publish(
        self, target: str, *, series: str, number: int, stages: Sequence[str], parts: Mapping[str, int], now: int,
        principal: str,
    ) -> Publication:  # fmt: skip
        """Send everything that the stages hold, all of it or nothing, and remember the number.

        Whoever looks at one of the queues sees either nothing of it or everything. Of a series whose number is that
        high already nothing is sent, and the stages are dropped. Raises StageNotFound, also for a stage that has not as
        many parts as `parts` says.
        """

    async def publication(self, target: str, *, series: str) -> Publication | None:
        """The newest of a series."""

    async def drop_stages(self, target: str, *, stages: Sequence[str]) -> None:
        """Forget stages that were not published; those that are not there are forgotten already."""

    async def staged(self, targets: Sequence[str]) -> Staged:
        """What is staged for these queues and exchanges."""

    # -- journal ----------------------------------------------------------------------------------------------

    def journals(self) -> Sequence[ShardLog]:
        """That of each shard, by the shards' numbers; the methods below speak of the first, or of an offset's."""

    async def spans(self) -> dict[int, Span]:
        """What can be read of each lane of the shard (see `core.lanes`), in ascending order.

        A shard's first lane is always there; any other one from its first event on, and for good.
        """

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        """Durable events of a lane from `start` on, up to the first gap; raises OffsetGone below the lane's oldest."""

    async def read_commits(self, *, start: int, limit: int) -> list[Commit]:
        """The same as they are stored: whole commits, from the one on that holds `start`, of about `limit` events."""

    async def offsets_at(self, at: int) -> dict[int, int]:
        """Of each lane the offset of the first event committed at `at` or later; its next offset without any."""

    async def offset_keeping(self, size: int, lane: int) -> int:
        """The offset from which on the lane's events fill at most `size` bytes."""

    async def trim_events(self, *, before: int) -> int:
        """Forget events of a lane below `before`, as far as whole commits allow; returns its oldest offset left."""

    async def tidy(self) -> None:
        """Go on with what the last trim of this node left: bodies whose messages are gone. Called now and then."""

    # -- care -------------------------------------------------------------------------------------------------

    async def check(self) -> list[str]:
        """Look for damage; each finding is one sentence, none means sound."""


async def newest_at(store: Store) -> int | None:
    """The latest instant that the last events of the journals tell of; None where there are none."""
    newest: int | None = None
    for journal in store.journals():
        for span in (await journal.spans()).values():
            async for entries in _last_events(journal, span):
                known = (entry.event.at for entry in entries if entry.event.kind != EventKind.DAMAGED)
                newest = max([newest or 0, *known])
    return newest


async def _last_events(journal: ShardLog, span: Span) -> AsyncIterator[list[Entry]]:
    start = max(span.oldest, span.next - LAST_EVENTS)
    while start < span.next:
        try:
            entries = await journal.read_events(start=start, limit=span.next - start)
        except OffsetGone as gone:  # another node has just trimmed it
            start = max(start + 1, gone.oldest)
            continue
        if not entries:
            return
        yield entries
        start = entries[-1].offset + 1


class Journals:
    """The past as far as the store itself remembers it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read_events = store.read_events

    @property
    def jumps(self) -> Sequence[Jump]:
        return [jump for journal in self._store.journals() for jump in journal.jumps]

    async def spans(self) -> dict[int, Span]:
        return {lane: span for journal in self._store.journals() for lane, span in (await journal.spans()).items()}

    async def offsets_at(self, at: int) -> dict[int, int]:
        return {lane: found for log in self._store.journals() for lane, found in (await log.offsets_at(at)).items()}


class Shards(Protocol):
    """What an operator can do with a store that is divided, or can be."""

    def figures(self) -> list[ShardFigures]:
        """Every shard, by number."""

    def relocations(self) -> list[Relocation]:
        """Queues that are on the move, and those that were lately."""

    async def add(self, name: str, url: str, *, weight: int) -> Shard:
        """Make an empty database a shard; raises AlreadyExists, and Invalid when it cannot be one."""

    async def change(self, name: str, **changes: object) -> Shard:
        """Change `weight`, `state` or `url`; raises ShardNotFound, and Invalid for a database that is not the shard."""

    async def remove(self, name: str) -> None:
        """Let go of a shard that is drained and empty; raises ShardNotFound, and InUse where it is not."""

    async def move(self, queue: Queue, to: str) -> Relocation:
        """Begin to move a queue to a shard, while it is used; raises ShardNotFound, and InUse while it moves."""

    async def run(self) -> None:
        """Look after shards, until cancelled."""
