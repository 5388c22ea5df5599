"""What an operation is, as its record keeps it."""

from enum import StrEnum

import msgspec

from couriermq.core.model import Message
from couriermq.core.model import State as MessageState
from couriermq.core.search import Search, Value


class Verb(StrEnum):
    REDRIVE = "redrive"
    """Dead letters go back to where they died, or to the target."""
    MOVE = "move"
    REMOVE = "remove"
    RESEND = "resend"
    """A copy of each is sent; the original stays."""
    REPLAY = "replay"
    """What was sent to the queue within a time is sent again, from journal and archive."""


class State(StrEnum):
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages; `start` and `end` are instants at which they came into the queue, or were sent to it."""

    states: tuple[int, ...] = ()
    attributes: tuple[tuple[str, Value], ...] = ()
    group: str | None = None
    attempts_min: int = 0
    contains: str | None = None
    reason: str | None = None
    source_queue: str | None = None
    content_type: str | None = None
    seqs: tuple[int, ...] | None = None
    start: int | None = None
    end: int | None = None

    def search(self, *, before: int, last_seq: int) -> Search:
        """The same as a search among messages that were there before: what comes back, or is sent, is not met again."""
        return Search(
            states=tuple(MessageState(one) for one in self.states) or Search().states,
            attributes=self.attributes,
            group=self.group,
            attempts_min=self.attempts_min,
            contains=self.contains,
            reason=self.reason,
            source_queue=self.source_queue,
            content_type=self.content_type,
            seqs=None if self.seqs is None else frozenset(self.seqs),
            last_seq=last_seq,
            start=self.start,
            end=before if self.end is None else min(before, self.end),
        )


class Operation(msgspec.Struct, kw_only=True):
    """One operation. The next portion begins at `after`.

    A portion that is sent is written down first, with its `number`, its `stage` and where it ends, `next`: after a
    crash the publication with that number tells whether it was sent. So nothing is sent twice and nothing left out.
    """

    id: str
    verb: Verb
    queue_id: str
    target_id: str | None
    where: Where
    per_second: float | None
    principal: str
    credential: str | None = None
    """Whose rights it needs until its end; None for root."""
    started_at: int
    last_seq: int
    state: State = State.RUNNING
    ended_at: int | None = None
    done_count: int = 0
    failed_count: int = 0
    looked_count: int = 0
    total_count: int | None = None
    error: str | None = None
    number: int = 0
    stage: str | None = None
    after: str | None = None
    next: str | None = None
    is_last: bool = False

    @property
    def matched_count(self) -> int:
        """How many of those that were looked at match."""
        return self.done_count + self.failed_count


class Preview(msgspec.Struct, kw_only=True):
    """What an operation would be about, as far as was looked."""

    matched_count: int
    looked_count: int
    without_body_count: int
    complete: bool
    examples: list[Message]
