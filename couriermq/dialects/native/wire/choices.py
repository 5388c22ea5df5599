"""Looking at messages without taking them, and doing something with those that were chosen."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from couriermq.broker import Filter
from couriermq.core import limits
from couriermq.core.errors import BatchTooLarge, Invalid
from couriermq.core.model import State
from couriermq.core.parsing import UNREADABLE
from couriermq.core.search import Search
from couriermq.dialects.native import limits as ours
from couriermq.dialects.native.wire.messages import Batch
from couriermq.dialects.native.wire.reading import Order

Seqs = Annotated[list[Annotated[int, Meta(ge=1, le=ours.NUMBER)]], Batch]
StateName = Annotated[str, Meta(extra_json_schema={"enum": [state.name.lower() for state in State]})]
AttributeText = Annotated[str, Meta(extra_json_schema={"pattern": "^[^:]+:.*$"})]
ATTRIBUTE_COUNT = 20
_SCALAR = msgspec.json.Decoder(str | float | bool)


class BrowseQuery(Order):
    """Which messages of a queue to show."""

    state: list[StateName] = msgspec.field(default_factory=list)
    id: str | None = None
    attribute: list[AttributeText] = msgspec.field(default_factory=list)
    group: str | None = None
    attempts_min: Annotated[int, Meta(ge=0, le=ours.NUMBER)] = 0
    contains: Annotated[str, Meta(min_length=1, max_length=1_000)] | None = None
    reason: str | None = None
    source_queue: str | None = None
    order: Literal["oldest", "newest"] = "oldest"
    preview_bytes: Annotated[int, Meta(ge=0, le=65_536)] | None = None
    bodies: bool = True
    limit: Annotated[int, Meta(ge=1, le=ours.LIST_COUNT)] = ours.BROWSE_COUNT
    after: str | None = None


class MoveOrder(Order):
    """`target` is a queue of the same tenant; without `seqs` everything moves that nobody holds."""

    target: str
    seqs: Seqs | None = None


class RedriveOrder(Order):
    """Without `target` each message goes back to the queue it died in; without `seqs` all of them do."""

    target: str | None = None
    seqs: Seqs | None = None


class RemoveOrder(Order):
    seqs: Seqs


class Removed(msgspec.Struct):
    """The messages that were there and are gone now."""

    seqs: list[int]


class Count(msgspec.Struct):
    """How many messages it was."""

    count: int


class Purge(msgspec.Struct):
    """A purge: how many messages it has removed so far; `ended_at` is null while it runs."""

    count: int
    started_at: int
    ended_at: int | None


class DownloadQuery(Order):
    """Whether to get the body alone, as a file."""

    download: bool = False


class DeadExample(msgspec.Struct):
    """A message of a group."""

    seq: int
    id: str


class DeadGroup(msgspec.Struct, kw_only=True):
    """Dead letters of one source, reason and content type; `hours` are the last 24 hours, the oldest first."""

    source_queue: str | None
    source_queue_id: str | None
    reason: str | None
    content_type: str
    count: int
    oldest_at: int
    newest_at: int
    hours: list[int]
    examples: list[DeadExample]


class DeadSummary(msgspec.Struct, kw_only=True):
    """The largest groups first, of the messages that were looked at, which are all where `complete`."""

    groups: list[DeadGroup]
    looked_count: int
    total_count: int
    complete: bool


MOVE = msgspec.json.Decoder(MoveOrder)
REDRIVE = msgspec.json.Decoder(RedriveOrder)
REMOVE = msgspec.json.Decoder(RemoveOrder)


def search_of(query: BrowseQuery, id_of: Callable[[str], str]) -> Search:
    """`id_of` gives the id of the queue that `source_queue` names."""
    return Search(
        states=states_of(query.state),
        id=query.id,
        attributes=attributes_of(query.attribute),
        group=query.group,
        attempts_min=query.attempts_min,
        contains=query.contains,
        reason=query.reason,
        source_queue=None if query.source_queue is None else id_of(query.source_queue),
    )


def filter_of(where: Search) -> Filter:
    """The same for the store itself, where it has all that it needs."""
    return Filter(states=where.states, id=where.id, attribute=where.attributes[0] if where.attributes else None)


def states_of(names: Sequence[str]) -> tuple[State, ...]:
    return tuple(_state_of(name) for name in names) or Filter().states


def attributes_of(texts: Sequence[str]) -> tuple[tuple[str, str | float | bool], ...]:
    if len(texts) > ATTRIBUTE_COUNT:
        raise Invalid(f"give at most {ATTRIBUTE_COUNT} attributes", field="attribute")
    return tuple(map(_attribute_of, texts))


def _state_of(name: str) -> State:
    try:
        return State[name.upper()]
    except KeyError:
        raise Invalid(f"{name!r} is not a state; use delayed, ready or leased", field="state") from None


def _attribute_of(text: str) -> tuple[str, str | float | bool]:
    """`name:value`; a value that reads as a JSON number, boolean or string is that, any other is the text itself."""
    name, colon, value = text.partition(":")
    if not name or not colon:
        raise Invalid("attribute is written name:value", field="attribute")
    try:
        return name, _SCALAR.decode(value)
    except UNREADABLE:
        return name, value


def check_seqs(seqs: list[int]) -> list[int]:
    if not 1 <= len(seqs) <= limits.BATCH_COUNT:
        raise BatchTooLarge(len(seqs), limits.BATCH_COUNT)
    return seqs
