"""Looking at messages without taking them, and doing something with those that were chosen."""

from typing import Annotated

import msgspec
from msgspec import Meta

from couriermq.broker import Filter
from couriermq.core import limits
from couriermq.core.errors import BatchTooLarge, Invalid
from couriermq.core.model import State
from couriermq.core.parsing import UNREADABLE
from couriermq.dialects.native import limits as ours
from couriermq.dialects.native.wire.messages import Batch
from couriermq.dialects.native.wire.reading import Order

Seqs = Annotated[list[Annotated[int, Meta(ge=1, le=ours.NUMBER)]], Batch]
StateName = Annotated[str, Meta(extra_json_schema={"enum": [state.name.lower() for state in State]})]
_SCALAR = msgspec.json.Decoder(str | float | bool)


class BrowseQuery(Order):
    """Which messages of a queue to show."""

    state: list[StateName] = msgspec.field(default_factory=list)
    id: str | None = None
    attribute: Annotated[str, Meta(extra_json_schema={"pattern": "^[^:]+:.*$"})] | None = None
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


MOVE = msgspec.json.Decoder(MoveOrder)
REDRIVE = msgspec.json.Decoder(RedriveOrder)
REMOVE = msgspec.json.Decoder(RemoveOrder)


def filter_of(query: BrowseQuery) -> Filter:
    states = tuple(_state_of(name) for name in query.state) or Filter().states
    return Filter(states=states, id=query.id, attribute=_attribute_of(query.attribute))


def _state_of(name: str) -> State:
    try:
        return State[name.upper()]
    except KeyError:
        raise Invalid(f"{name!r} is not a state; use delayed, ready or leased", field="state") from None


def _attribute_of(text: str | None) -> tuple[str, str | float | bool] | None:
    """`name:value`; a value that reads as a JSON number, boolean or string is that, any other is the text itself."""
    if text is None:
        return None
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
