"""Lists of the control plane, a page at a time."""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from couriermq.core.limits import Room
from couriermq.dialects.native import limits
from couriermq.dialects.native.wire.reading import Order

T = TypeVar("T")

_encode = msgspec.msgpack.Encoder().encode


class PageQuery(Order):
    """Where a page starts and how long it may be."""

    limit: Annotated[int, Meta(ge=1, le=limits.LIST_COUNT)] = limits.LIST_COUNT
    after: str = ""


class NamesQuery(PageQuery):
    """The same, for names that begin with a prefix."""

    prefix: str = ""


def page_of(things: Sequence[T], query: PageQuery, key: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """The things after the cursor, sorted by key, and the cursor of the page that follows, if there is one.

    A page ends before its limit where its things are large.
    """
    rest = [thing for thing in things if key(thing) > query.after] if query.after else things
    room = Room()
    page = list(takewhile(lambda thing: room.takes(len(_encode(thing))), rest[: query.limit]))
    return page, key(page[-1]) if len(rest) > len(page) else None
