"""Who commits together, whatever the engine: a transaction and a sync for all who wait, within bounds."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from couriermq.core.errors import Unavailable
from couriermq.storage import group_commit
from couriermq.storage.group_commit import LATER, TURN_EVENTS, GroupCommit, Turn

Order = Any
"""Any object will do: the engine of these tests answers it with itself."""


class FakeEngine:
    """Answers each order with itself; an order that is an error is raised, and a large number finds no room twice."""

    def __init__(self) -> None:
        self.commits: list[list[Order]] = []
        self.sync_count = 0
        self.broken = False
        self.durable = 0
        self.failures: list[str] = []

    def commit(self, orders: Sequence[Order], turn: Turn) -> tuple[list[object], bool]:
        if error := next((order for order in orders if isinstance(order, Exception)), None):
            raise error
        self.commits.append(list(orders))
        results: list[object] = []
        events = 0
        for order in orders:
            results.append(order)
            events += order if isinstance(order, int) else 0
            if turn.is_over(events=events, size=0):
                break
        if "later" in orders and len(self.commits) == 1:
            results[list(orders).index("later")] = LATER
        return results, "look" not in orders

    def commit_alone(self, order: Order) -> tuple[object, bool]:
        return (order, False) if isinstance(order, Exception) else (self.commit([order], Turn())[0][0], True)

    def rank(self, order: Order) -> int:
        return 0

    def sync(self) -> None:
        self.sync_count += 1
        if self.broken:
            raise OSError("no disk")

    def synced(self) -> None:
        self.durable = len(self.commits)

    def failed(self, reason: str) -> None:
        self.failures.append(reason)

    def rest(self) -> None: ...


@pytest.fixture(autouse=True)
def long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine does not part those who come together."""
    monkeypatch.setattr(group_commit, "TURN_SECONDS", 60.0)


@pytest.fixture
def fake() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
async def commit(fake: FakeEngine) -> AsyncIterator[GroupCommit]:
    commit = GroupCommit(fake)
    yield commit
    await commit.close()


async def test_all_who_wait_share_one_transaction_and_one_sync(fake: FakeEngine, commit: Any) -> None:
    orders = [f"order-{n}" for n in range(50)]
    assert await asyncio.gather(*map(commit.submit, orders)) == orders
    assert (len(fake.commits), fake.sync_count) == (1, 1)


async def test_a_look_needs_no_sync(fake: FakeEngine, commit: Any) -> None:
    await commit.submit("look")
    assert fake.sync_count == 0


async def test_an_order_that_raises_is_undone_alone(fake: FakeEngine, commit: Any) -> None:
    orders = ["good", ValueError("bad"), "fine"]
    outcomes = await asyncio.gather(*map(commit.submit, orders), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["good", "bad", "fine"]


async def test_a_transaction_is_bounded_in_events(fake: FakeEngine, commit: Any) -> None:
    await asyncio.gather(*(commit.submit(TURN_EVENTS // 2) for _ in range(4)))
    assert [len(orders) for orders in fake.commits] == [4, 2]


async def test_an_order_that_found_no_room_comes_with_the_next(fake: FakeEngine, commit: Any) -> None:
    assert await asyncio.gather(*map(commit.submit, ["later", "now"])) == ["later", "now"]
    assert fake.commits == [["later", "now"], ["later"]]


async def test_nobody_hears_of_success_after_a_failed_sync(fake: FakeEngine, commit: Any) -> None:
    fake.broken = True
    with pytest.raises(Unavailable, match="no disk"):
        await commit.submit("doubtful")
    assert fake.durable == 0
    fake.broken = False
    with pytest.raises(Unavailable, match="no disk"):
        await commit.submit("refused")
    assert fake.commits == [["doubtful"]]
    assert (fake.durable, len(fake.failures)) == (0, 1)
