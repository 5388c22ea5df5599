"""A send whose parcels part ways, because one of their queues is on the move."""

from collections.abc import Sequence
from typing import Any

import pytest

from couriermq.core.errors import QueueNotFound
from couriermq.core.model import Draft, Queue, Sent
from couriermq.core.sharding import Shard
from couriermq.storage.base import Parcel, RoutesChanged
from couriermq.storage.sharded.places import Places
from couriermq.storage.sharded.sending import Sending

MOVING, STAYING = (Queue(key=key, id=f"q{key}", tenant="default", name=f"q{key}") for key in (1, 2))


class Scripted:
    """An engine that gives the answers it was told to give, and the routing that leads to it."""

    def __init__(self, *answers: Sequence[Sent | QueueNotFound] | RoutesChanged) -> None:
        self.answers = list(answers)
        self.sent: list[list[str | None]] = []
        self.places = Places()
        self.places.shards[1] = Shard(number=1, name="second", url="", weight=1)
        self.home = self.catalog = self

    async def send(self, parcels: Sequence[Parcel], **order: Any) -> Sequence[Sent | QueueNotFound]:
        self.sent.append([parcel.draft.id for parcel in parcels])
        answer = self.answers.pop(0)
        if isinstance(answer, RoutesChanged):
            raise answer
        return list(answer)

    async def engine(self, number: int) -> "Scripted":
        return self

    async def refresh(self) -> None:
        """There is nothing to hear of."""

    async def wait_for(self, queue: Queue, deadline: float) -> float:
        return deadline

    def queue_of_key(self, key: int) -> Queue | None:
        return {1: MOVING, 2: STAYING}.get(key)


def parcels() -> list[Parcel]:
    return [Parcel(STAYING, Draft(body=b"x", id="a")), Parcel(MOVING, Draft(body=b"x", id="b"))]


async def send(routing: Scripted) -> list[Any]:
    return await Sending(routing).send(parcels(), now=0, principal="tester")  # type: ignore[arg-type]


async def test_what_is_left_over_is_sent_again_alone() -> None:
    routing = Scripted([Sent(1, "a"), QueueNotFound("q1")], [Sent(2, "b")])
    assert await send(routing) == [Sent(1, "a"), Sent(2, "b")]
    assert routing.sent == [["a", "b"], ["b"]]


async def test_what_is_sent_is_not_sent_twice_when_routes_change_before_the_rest_is() -> None:
    routing = Scripted([Sent(1, "a"), QueueNotFound("q1")], RoutesChanged(), [Sent(2, "b")])
    assert await send(routing) == [Sent(1, "a"), Sent(2, "b")]
    assert routing.sent == [["a", "b"], ["b"], ["b"]]


async def test_where_nothing_is_sent_yet_changed_routes_are_the_callers_to_follow() -> None:
    routing = Scripted([QueueNotFound("q2"), QueueNotFound("q1")], RoutesChanged())
    with pytest.raises(RoutesChanged):
        await send(routing)
