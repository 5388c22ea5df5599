"""The storm of the cluster tests is itself tested: it notices every listener that gets its messages wrongly."""

import random

import pytest

from tests.support.cluster import Freeze, Storm
from tests.support.receiver import Receiver, Request

FREEZE = Freeze(stopped_at=1_000.5, continued_at=1_012.5)


def request(id_: str, *, signed_at: int, came_at: float | None = None) -> Request:
    headers = {"webhook-id": id_, "courier-message-id": id_, "webhook-timestamp": str(signed_at)}
    return Request("POST", "/hook", headers, b"", 1, signed_at + 0.1 if came_at is None else came_at)


DELAYED = request("a", signed_at=1_000, came_at=1_012.6)
"""What a node was writing when it was stopped."""


async def findings(*requests: Request, news: str = "abc", freezes: tuple[Freeze, ...] = (FREEZE,)) -> list[str]:
    storm = Storm([], random.Random(7))
    storm.news, storm.freezes = list(news), list(freezes)
    storm.receivers = {"ordered": Receiver(requests=list(requests))}
    return storm.findings()


def story(*last: Request) -> list[Request]:
    return [request("a", signed_at=1_010), request("b", signed_at=1_011), request("c", signed_at=1_012), *last]


async def test_messages_in_order_and_repetitions_of_the_newest_are_no_findings() -> None:
    assert await findings(*story(request("c", signed_at=1_013)), freezes=()) == []


async def test_a_message_that_never_came_is_noticed() -> None:
    assert await findings(request("a", signed_at=1_000), news="ab") == ["b never came to ordered"]


async def test_what_a_node_was_writing_when_it_was_stopped_may_come_late_once() -> None:
    assert await findings(*story(DELAYED)) == []
    assert await findings(*story(DELAYED, DELAYED)) == ["a came after c, at 1012.600, signed at 1000"]


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(request("a", signed_at=1_012, came_at=1_012.6), id="signed while it stood still or later"),
        pytest.param(request("a", signed_at=1_013, came_at=1_013.1), id="signed when it went on"),
        pytest.param(request("a", signed_at=998, came_at=1_012.6), id="signed long before"),
        pytest.param(request("a", signed_at=1_000, came_at=1_012.4), id="came before it went on"),
    ],
)
async def test_every_other_repetition_out_of_order_is_noticed(late: Request) -> None:
    assert len(await findings(*story(late))) == 1


async def test_without_a_freeze_nothing_may_come_late() -> None:
    assert len(await findings(*story(DELAYED), freezes=())) == 1


async def test_a_message_that_comes_out_of_order_for_the_first_time_is_noticed() -> None:
    late = [request("b", signed_at=1_011), DELAYED]
    assert await findings(*late, news="ab") == ["a came after b, at 1012.600, signed at 1000"]
