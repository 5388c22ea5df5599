"""Pages of lists: what is shown, and where the next page is."""

from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import urlencode

from couriermq.dialects.discue.wire.reading import PageOrder
from couriermq.web.call import Call, Header

T = TypeVar("T")


def cut(call: Call, items: Sequence[T], order: PageOrder, path: str) -> tuple[Sequence[T], list[Header]]:
    """One page of a list, and the header that leads to the next."""
    end = order.skip + order.per_page
    return items[order.skip : end], next_page(call, order, path) if len(items) > end else []


def next_page(call: Call, order: PageOrder, path: str) -> list[Header]:
    """Not among `_links`: those belong to the children, and a child may be named `next`."""
    query = urlencode({"page": order.page + 1, "per_page": order.per_page})
    return [(b"link", f'<{call.base_url}{path}?{query}>; rel="next"'.encode("latin-1"))]
