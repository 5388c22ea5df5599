"""Who waits for an operation hears by the exit code how it ended."""

from typing import Any, cast

import pytest

from couriermq.cli.connection import Remote
from couriermq.cli.exits import Exit, Failure
from couriermq.cli.operations import start
from couriermq.cli.screen import Screen

Json = dict[str, Any]


class Server:
    """A server as a client sees it: an operation that ends at the first look."""

    json = True

    def __init__(self, **ended: Any) -> None:
        self.client, self.screen = self, Screen(json=True)
        running = {"id": "op", "verb": "move", "queue": "orders", "state": "running", "total_count": 9}
        self.running = {**running, "done_count": 0, "failed_count": 0, "looked_count": 0, "error": None}
        self.ended = self.running | ended

    def path(self, *segments: str) -> str:
        return "/".join(segments)

    def post(self, path: str, order: Json) -> Json:
        return {"matched_count": 9, "complete": True, "looked_count": 9} if order.get("preview") else self.running

    def get(self, path: str) -> Json:
        return self.ended


def waited(monkeypatch: pytest.MonkeyPatch, **ended: Any) -> None:
    monkeypatch.setattr("couriermq.cli.operations.LOOK_MS", 0)
    start("move", "orders", target="others", wait=True, yes=True, remote=cast(Remote, Server(**ended)))


def test_an_operation_that_is_done_is_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    waited(monkeypatch, state="done", done_count=9)


@pytest.mark.parametrize(
    ("ended", "sentence"),
    [
        ({"state": "failed", "error": "no queue named 'others'"}, "no queue named 'others'"),
        ({"state": "cancelled", "done_count": 3}, "the operation was cancelled"),
        ({"state": "cancelled", "error": "the credential is disabled"}, "was cancelled: the credential is disabled"),
        ({"state": "done", "done_count": 7, "failed_count": 2}, "not done for 2 messages"),
        ({"state": "done", "done_count": 8, "failed_count": 1}, "not done for 1 message"),
    ],
)
def test_any_other_end_is_a_failure(monkeypatch: pytest.MonkeyPatch, ended: Json, sentence: str) -> None:
    with pytest.raises(Failure, match=f"{sentence}$") as refused:
        waited(monkeypatch, **ended)
    assert refused.value.code is Exit.FAILED
