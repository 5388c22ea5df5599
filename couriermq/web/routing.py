"""The route table: from a method and a raw path to an endpoint and the names in its pattern.

The path is split before it is decoded, so that `%2F` stays inside its segment. At each step a literal segment wins
over a name; where the literal turns out to lead nowhere, the name is tried.
"""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar
from urllib.parse import unquote

from couriermq.web.errors import MalformedRequest, MethodNotAllowed, NoRoute

E = TypeVar("E")

MOST_PATHS = 1_000
PATH_CHARS = 256
"""How many paths that were asked for are remembered, and how long they may be."""


class _Node(Generic[E]):
    __slots__ = ("any", "endpoints", "literals")

    def __init__(self) -> None:
        self.literals: dict[str, _Node[E]] = {}
        self.any: _Node[E] | None = None
        self.endpoints: dict[str, tuple[E, tuple[str, ...]]] = {}


class RouteTable(Generic[E]):
    """Endpoints by method and pattern."""

    def __init__(self) -> None:
        self._root: _Node[E] = _Node()
        self._found: dict[tuple[str, str], tuple[E, dict[str, str]]] = {}
        """By method and path; most clients ask for the same few again and again."""

    def add(self, method: str, pattern: str, endpoint: E) -> None:
        """Raises ValueError for a pattern that is there already: two dialects must not share a path."""
        node, names = self._root, []
        for segment in pattern.split("/"):
            if segment.startswith("{") and segment.endswith("}"):
                names.append(segment[1:-1])
                node.any = node.any or _Node()
                node = node.any
            else:
                node = node.literals.setdefault(segment, _Node())
        if method in node.endpoints:
            raise ValueError(f"{method} {pattern} is served twice")
        node.endpoints[method] = (endpoint, tuple(names))
        self._found.clear()

    def find(self, method: str, raw_path: str) -> tuple[E, dict[str, str]]:
        """The endpoint and its parameters, which nobody may change; raises NoRoute, MethodNotAllowed or
        MalformedRequest."""
        known = self._found.get((method, raw_path))
        if known is not None:
            return known
        found = self._look_up(method, raw_path)
        if len(raw_path) <= PATH_CHARS:
            if len(self._found) >= MOST_PATHS:
                self._found.clear()
            self._found[method, raw_path] = found
        return found

    def _look_up(self, method: str, raw_path: str) -> tuple[E, dict[str, str]]:
        segments = raw_path.split("/")
        if "%" in raw_path:
            segments = _decode(segments)
        node: _Node[E] | None = self._root
        values = []
        for segment in segments:
            following = node.literals.get(segment)  # type: ignore[union-attr]
            if following is None:
                following = node.any  # type: ignore[union-attr]
                if following is None or not segment:
                    return self._search(method, raw_path, segments)
                values.append(segment)
            node = following
        found = node.endpoints.get(method)  # type: ignore[union-attr]
        if found is None:
            return self._search(method, raw_path, segments)
        endpoint, names = found
        return endpoint, dict(zip(names, values, strict=True))

    def _search(self, method: str, raw_path: str, segments: Sequence[str]) -> tuple[E, dict[str, str]]:
        """Try every way through the table; HEAD is served by GET."""
        allowed: set[str] = set()
        for node, values in _ways(self._root, segments, 0, ()):
            found = node.endpoints.get(method) or (node.endpoints.get("GET") if method == "HEAD" else None)
            if found is not None:
                endpoint, names = found
                return endpoint, dict(zip(names, values, strict=True))
            allowed.update(node.endpoints)
        if allowed:
            raise MethodNotAllowed(method, tuple(sorted(allowed | ({"HEAD"} if "GET" in allowed else set()))))
        raise NoRoute(raw_path)


def _ways(
    node: _Node[E], segments: Sequence[str], index: int, values: tuple[str, ...]
) -> Iterator[tuple[_Node[E], tuple[str, ...]]]:
    if index == len(segments):
        if node.endpoints:
            yield node, values
        return
    segment = segments[index]
    if segment in node.literals:
        yield from _ways(node.literals[segment], segments, index + 1, values)
    if node.any is not None and segment:
        yield from _ways(node.any, segments, index + 1, (*values, segment))


def _decode(segments: Sequence[str]) -> list[str]:
    try:
        return [unquote(segment, errors="strict") for segment in segments]
    except UnicodeDecodeError:
        raise MalformedRequest("the path is not UTF-8") from None
