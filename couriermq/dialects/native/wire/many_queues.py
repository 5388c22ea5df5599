"""The same change to many queues, on the wire."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.core.limits import ID_CHARS
from couriermq.dialects.native import limits
from couriermq.dialects.native.wire.reading import Order

Name = Annotated[str, Meta(max_length=ID_CHARS)]


class QueuesChange(Order):
    """What to do to the queues that are named, or to all with `find` in their name, after the one called `after`."""

    one_of: ClassVar = ("queues", "find")

    change: Literal["pause", "resume", "purge"]
    queues: Annotated[list[Name], Meta(min_length=1, max_length=limits.LIST_COUNT)] | UnsetType = UNSET
    find: Name | UnsetType = UNSET
    after: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=limits.LIST_COUNT)] = 200


class QueueFailure(msgspec.Struct):
    """A queue that stayed as it was, and why."""

    queue: str
    detail: str


class QueuesChanged(msgspec.Struct):
    """What has become of a page of the queues. With `next` as `after` the following ones have their turn."""

    matched_count: int
    changed_count: int = 0
    failures: list[QueueFailure] = []
    next: str | None = None


CHANGE = msgspec.json.Decoder(QueuesChange)
