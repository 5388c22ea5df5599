"""Portions are published whole, or not at all."""

from typing import Any, cast

from couriermq.cli.connection import Remote
from couriermq.cli.publishing import publish
from couriermq.cli.sending import BATCH_COUNT


class Recorder:
    """A server as a client sees it: takes everything."""

    def __init__(self) -> None:
        self.client = self
        self.puts: list[tuple[str, Any]] = []

    def queue(self, *segments: str) -> str:
        return "/".join(segments)

    def put(self, path: str, document: Any) -> None:
        self.puts.append((path, document))


def published(count: int) -> tuple[list[str], Any]:
    """The parts that are staged, and the publication."""
    recorder = Recorder()
    assert publish(cast(Remote, recorder), "orders", "replay-1", 7, ({"body": str(n)} for n in range(count))) == count
    *parts, (path, order) = recorder.puts
    assert path == "orders/publications/replay-1"
    return [path for path, _ in parts], order


def test_a_publication_says_how_many_parts_it_has() -> None:
    parts, order = published(BATCH_COUNT + 1)
    assert parts == ["orders/stages/replay-1-7/0", "orders/stages/replay-1-7/1"]
    assert order == {"number": 7, "stages": ["replay-1-7"], "parts": {"replay-1-7": 2}}


def test_a_portion_of_nothing_has_no_stage() -> None:
    assert published(0) == ([], {"number": 7, "stages": [], "parts": {}})
