"""Tenants have their turns: a long line of one delays nobody else by more than one piece of work."""

import asyncio
import itertools
from functools import partial

from couriermq.core.model import ListenerState
from couriermq.delivery.fairness import FairWork
from couriermq.delivery.tasks import Tasks
from tests.delivery.conftest import Post
from tests.support.eventually import eventually
from tests.support.receiver import Receiver, hang


class Bench:
    """Work that notes when it begins and waits until it is let go."""

    def __init__(self, *, total: int = 100, each: int = 100, burst: int = 100) -> None:
        self.tasks = Tasks()
        self.fair = FairWork(self.tasks, total=total, each=each, burst=burst)
        self.begun: list[str] = []
        self.active = self.most_active = 0
        self.let_go = asyncio.Event()

    def add(self, tenant: str, count: int = 1) -> None:
        for _ in range(count):
            self.fair.add(tenant, partial(self._work, tenant))

    async def _work(self, tenant: str) -> None:
        self.begun.append(tenant)
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        await self.let_go.wait()
        self.active -= 1

    async def finish(self) -> None:
        self.let_go.set()
        await self.fair.finish(seconds=5)
        await self.tasks.finish(seconds=5)


async def test_lines_are_served_in_turn() -> None:
    bench = Bench(total=1)
    bench.add("noisy", 1_000)
    bench.add("quiet", 2)
    bench.add("other", 1)
    await bench.finish()
    assert bench.begun[:6] == ["noisy", "noisy", "quiet", "other", "noisy", "quiet"]
    assert len(bench.begun) == 1_003


async def test_a_tenant_that_hangs_leaves_room_for_others() -> None:
    bench = Bench(total=10, each=8)
    bench.add("noisy", 100)
    bench.add("quiet", 1)
    await eventually(lambda: "quiet" in bench.begun)
    assert bench.begun.count("noisy") == 8
    await bench.finish()
    assert bench.most_active <= 10
    assert len(bench.begun) == 101


async def test_one_turn_of_the_loop_begins_a_few_at_most() -> None:
    bench = Bench(burst=5)
    bench.add("noisy", 50)
    seen = []
    for _ in range(30):
        seen.append(len(bench.begun))
        await asyncio.sleep(0)
    assert max(after - before for before, after in itertools.pairwise(seen)) == 5
    await bench.finish()
    assert len(bench.begun) == 50


async def test_work_that_fails_gives_its_place_back() -> None:
    bench = Bench(total=1)

    async def broken() -> None:
        raise ValueError("broken")

    bench.fair.add("noisy", broken)
    bench.add("noisy", 1)
    await eventually(lambda: bench.begun)
    await bench.finish()


async def test_deliveries_that_wait_for_their_turn_are_given_back_when_the_listener_is_paused(
    post: Post, receiver: Receiver
) -> None:
    post.deliveries._request_work._each = 1
    receiver.behave(hang)
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, timeout_ms=300)
    await post.send(queue, *[b"x"] * 5)
    await receiver.wait(1)
    await post.deliveries.pause(listener, principal="test")
    await post.attempts(listener, 1)
    await eventually(lambda: post.waiting(listener), lambda counters: counters.ready_count == 4)
    assert post.now(listener).state is ListenerState.PAUSED
    assert len(receiver.requests) == 1
