"""A store as plain facts, the same whatever the engine: what a migration reads from one and writes to another."""

import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import takewhile
from typing import Any, Protocol, TypeVar

import msgspec

from couriermq.core.lifecycle.rows import Contents, Pack, Single, single_of
from couriermq.core.limits import COMMIT_BYTES, Room
from couriermq.storage.base import CannotOpen
from couriermq.storage.contents import Damaged

TABLES: dict[str, tuple[str, ...]] = {
    "record": ("kind", "tenant", "id", "slot", "document"),
    "tally": ("queue", "ready", "delayed", "leased", "bytes", "sent", "acked", "dead"),
    "fifo": ("queue", "grp", "leased", "head", "available_at"),
    "dedup": ("queue", "dedup_id", "until_at", "seq", "id"),
    "job": ("queue", "name", "epoch", "done", "opened_at"),
    "claim": ("queue", "job", "number", "wanted", "complete", "fate", "count", "bytes", "claimed_at"),
    "claim_part": ("queue", "job", "number", "first", "count", "seqs"),
    "stage": ("target", "name", "part", "chunk", "count", "staged_at", "keys", "parcels"),
    "publication": ("target", "series", "number", "count", "published_at"),
}
"""What there is besides messages and journal, and the columns that both engines have."""

KEYS = {"record": 3, "tally": 1, "claim": 3, "claim_part": 4, "stage": 4}
"""How many columns, the first ones, are the key of a table, where that is not two."""


class DumpedMessage(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A message with all its state."""

    seq: int
    queue: int
    state: int
    due_at: int
    attempts: int
    lease_no: int
    entered_at: int
    discard_at: int | None
    sent_at: int
    delay_ms: int
    given: bool
    id: str
    content_type: str
    attributes: dict[str, Any]
    group: str | None
    trace: str | None
    origin: int | None
    death: bytes | None
    body: bytes
    turn: int = 0


class DumpedCommit(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One commit of the journal, its events packed as every engine packs them."""

    start: int
    count: int
    at: int
    events: bytes


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a store must go on with, so that no number is given out twice and every receipt holds."""

    seal_key: bytes
    next_key: int
    next_seq: int
    next_lease: int
    next_offset: int
    """Of the first lane, which may have no events left."""
    identity: bytes | None = None
    """Which store it is, as both engines keep it; none in a store that this version has not opened yet."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """How far a migration has come; kept in the target until it is whole."""

    source: bytes
    """The seal key of the store that is copied."""
    since: dict[int, int]
    """By lane, the offset from which on changes must be looked at again; a lane that is not named, from its first."""
    cursor: str = ""
    copied: bool = False


NOTE = "migration"
"""The name of the note in the table `meta`."""

Batch = tuple[list[DumpedMessage], str]
"""Messages, and the cursor after them."""
Rows = list[tuple[Any, ...]]


class Dump(Protocol):
    """A store that nobody serves through this; messages come in whatever order suits the engine."""

    async def open(self) -> None:
        """Look at it; a target stays as it is until `begin_writing`."""

    async def begin_writing(self) -> None: ...
    async def close(self) -> None: ...
    async def hold(self) -> bool:
        """Keep servers out from now on; False while one is running."""

    async def is_used(self) -> bool:
        """Whether a store was begun in it, of whatever version, complete or in part."""

    async def facts(self) -> Facts | None:
        """None for a store that nobody has used yet."""

    async def counts(self) -> tuple[int, int]:
        """How many messages, and how many events, there are."""

    def messages(self, after: str) -> AsyncIterator[Batch]: ...
    def named(self, seqs: Sequence[int]) -> AsyncIterator[list[DumpedMessage]]:
        """Those of the messages that there are, in batches."""

    async def may_be_ready(self, at: int) -> list[int]:
        """Seqs of delayed messages that can be ready by now without an event: their delay has ended by `at`, or they
        wait for another attempt, which can be made at once."""

    async def spans(self) -> dict[int, tuple[int, int]]:
        """By lane of the journal, the oldest offset that readers see and the next one."""

    def journal(self, start: int) -> AsyncIterator[list[DumpedCommit]]:
        """What the lane of `start` has from there on."""

    def rows(self, table: str) -> AsyncIterator[Rows]: ...
    async def read_note(self) -> Note | None: ...
    async def write_note(self, note: Note | None) -> None: ...
    async def put_messages(self, messages: Sequence[DumpedMessage], *, gone: Sequence[int] = ()) -> None: ...
    async def put_journal(self, commits: Sequence[DumpedCommit]) -> None: ...
    async def put_rows(self, table: str, portions: AsyncIterator[Rows]) -> None:
        """Replace what the table has."""

    async def put_facts(self, facts: Facts) -> None: ...
    async def erase_messages(self) -> None: ...
    async def trim_journal(self, *, before: int) -> None:
        """Forget what the lane of `before` has below it."""


def dumped(s: Single, body: bytes) -> DumpedMessage:
    """A message as it is stored, and its body."""
    attributes = msgspec.msgpack.decode(s.attributes) if s.attributes else {}
    return DumpedMessage(
        s.seq, s.queue, s.state, s.due_at, s.attempts, s.lease_no, s.entered_at, s.discard_at, s.sent_at, s.delay_ms,
        bool(s.given), s.id, s.content_type, attributes, s.group, s.trace, s.origin, s.death, body, s.turn,
    )  # fmt: skip


def dumped_pack(pack: Pack, contents: Contents) -> Iterator[DumpedMessage]:
    """The messages of a pack, each for itself."""
    for index in pack.indexes():
        single = single_of(pack, index, contents)
        yield dumped(single, contents.body_of(single))


def rows_at_once(table: str) -> int:
    """A row of `stage` can be as large as a request; of the other tables many fit into memory."""
    return 1 if table == "stage" else 100


Row = TypeVar("Row", bound=Pack | Single)


def fitting(rows: Iterable[Row]) -> list[Row]:
    """The first of the rows, as many as a batch has room for: at least one, and no more than COMMIT_BYTES."""
    room = Room(COMMIT_BYTES)
    return list(takewhile(lambda row: room.takes(row.bytes if isinstance(row, Pack) else row.weight), rows))


@contextlib.contextmanager
def refusing_damage() -> Iterator[None]:
    """What is damaged is not copied."""
    try:
        yield
    except Damaged as error:
        raise CannotOpen(f"{error}; run `courier doctor`") from error


def refuse_part(place: str, note: object | None) -> None:
    """A store with a note may lack anything: it is neither served nor copied on."""
    if note is not None:
        raise CannotOpen(
            f"{place} holds a copy whose `courier migrate` has not ended, or has found it to differ from its source;"
            " give the same command again until it succeeds, or throw the copy away"
        )


class Digest:
    """Of many things in whatever order: the same for the same things."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0

    def add(self, thing: object) -> None:
        hashed = blake2b(msgspec.msgpack.encode(thing, order="deterministic"), digest_size=16).digest()
        self.count += 1
        self._sum = (self._sum + int.from_bytes(hashed, "big")) % 2**128

    @property
    def value(self) -> tuple[int, int]:
        return self.count, self._sum
