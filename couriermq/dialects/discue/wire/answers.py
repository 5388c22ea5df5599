"""Every answer: JSON with `_links`, plain or pretty, and a failure of exactly two fields."""

from collections.abc import Iterable, Mapping
from urllib.parse import quote

import msgspec

from couriermq.core.model import Json
from couriermq.dialects.discue.errors import TITLES
from couriermq.web.call import JSON_TYPE, Call, Header, Reply
from couriermq.web.errors import MalformedRequest

DETAIL = b"x-courier-detail"
"""The header that says in one sentence what an error's two fields cannot."""
DETAIL_CHARS = 500

Child = tuple[str, str]
"""The name of a child and its path."""


def answer(
    call: Call,
    document: Mapping[str, Json],
    path: str,
    *,
    children: Iterable[Child] = (),
    headers: Iterable[Header] = (),
) -> Reply:
    """A success: the document with links to itself and, by their names, to its children."""
    base = call.base_url
    links = {"self": {"href": base + path}}
    for name, child in children:
        links.setdefault(name if name not in links else child.rpartition("/")[2], {"href": base + child})
    return render(call, 200, {**document, "_links": links}, headers)


def failed(call: Call, status: int, detail: str | None, headers: Iterable[Header] = ()) -> Reply:
    told: list[Header] = [(DETAIL, header_value(detail))] if detail else []
    return render(call, status, {"title": TITLES[status], "status": status}, [*told, *headers])


def render(call: Call, status: int, document: Mapping[str, Json], headers: Iterable[Header]) -> Reply:
    body = msgspec.json.encode(document)
    if _is_pretty(call):
        body = msgspec.json.format(body, indent=2)
    return Reply(status, body, (JSON_TYPE, *headers))


def path_of(*parts: str) -> str:
    """A path from its parts, each of which may hold anything."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def header_value(sentence: str) -> bytes:
    return " ".join(sentence.split())[:DETAIL_CHARS].encode("ascii", "replace")


def _is_pretty(call: Call) -> bool:
    if b"pretty" not in call.raw_query:
        return False
    try:
        wanted = call.argument("pretty")
    except MalformedRequest:
        return False
    return wanted is not None and wanted.lower() not in {"false", "0", "no"}
