"""Who commits together where several committers are at work."""

import asyncio
from collections.abc import Sequence
from typing import Any

from couriermq.storage.group_commit import ACK, RECEIVE, SENDS, ConcurrentCommit, Joint, Order, Turn


class Committer:
    """Notes its batches, and takes as long for each as the test wants."""

    def __init__(self, batches: list[list[Any]]) -> None:
        self._batches = batches
        self.may_end = asyncio.Event()

    async def commit(self, orders: Sequence[Order], turn: Turn) -> list[object]:
        self._batches.append([order.order for order in orders if isinstance(order, Joint)])
        await self.may_end.wait()
        return [None] * len(orders)

    async def commit_alone(self, order: Order) -> object:
        raise NotImplementedError


def joint(key: tuple[str, int], name: str) -> Joint:
    return Joint(key, lambda unit, orders: orders, name, 1)


class Shop:
    """A group commit with two committers that end only when they are told to."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self._committers = [Committer(self.batches), Committer(self.batches)]
        self.commit = ConcurrentCommit(self._committers)
        self._tasks: list[asyncio.Task[Any]] = []

    async def order(self, *orders: tuple[tuple[str, int], str]) -> None:
        self._tasks += [asyncio.create_task(self.commit.submit(joint(*order))) for order in orders]
        for _ in range(10):
            await asyncio.sleep(0)

    async def end(self) -> None:
        for committer in self._committers:
            committer.may_end.set()
        await asyncio.gather(*self._tasks)
        await self.commit.close()


async def test_sends_that_come_while_some_are_committed_share_the_next_batch() -> None:
    shop = Shop()
    await shop.order((SENDS, "a"), (SENDS, "b"))
    await shop.order((SENDS, "c"))
    await shop.order((SENDS, "d"))
    assert shop.batches == [["a", "b"]]
    await shop.end()
    assert shop.batches == [["a", "b"], ["c", "d"]]


async def test_a_send_that_is_alone_keeps_no_other_waiting() -> None:
    shop = Shop()
    await shop.order((SENDS, "a"))
    await shop.order((SENDS, "b"))
    assert shop.batches == [["a"], ["b"]]
    await shop.end()


async def test_sends_go_on_beside_a_batch_that_may_wait_for_a_lock() -> None:
    shop = Shop()
    await shop.order(((RECEIVE, 1), "receive"), (SENDS, "a"))
    await shop.order((SENDS, "b"), (SENDS, "c"))
    assert shop.batches == [["receive", "a"], ["b", "c"]]
    await shop.end()


async def test_sends_do_not_wait_for_receives_nor_receives_for_those_of_another_queue() -> None:
    shop = Shop()
    await shop.order(((RECEIVE, 1), "receive"), ((RECEIVE, 1), "receive too"))
    await shop.order((SENDS, "a"), ((ACK, 1), "ack"), ((RECEIVE, 2), "elsewhere"))
    assert shop.batches == [["receive", "receive too"], ["a", "elsewhere"]]
    await shop.end()
    assert shop.batches[2:] == [["ack"]]
