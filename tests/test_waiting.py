"""Receivers that wait are woken in their order, once for each arrival, and never by polling."""

import asyncio
from collections.abc import Coroutine

import pytest

from couriermq.clock import FakeClock
from couriermq.core.errors import Unavailable
from couriermq.waiting import Arrivals

QUEUE, OTHER = 1, 2


async def settle_down() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def started(*coroutines: Coroutine[None, None, bool]) -> list[asyncio.Task[bool]]:
    return [asyncio.create_task(each) for each in coroutines]


def wait(arrivals: Arrivals, queue_key: int = QUEUE, *, until: int = 100) -> Coroutine[None, None, bool]:
    return arrivals.wait(queue_key, seen=arrivals.seen(queue_key), until=until)


async def test_an_arrival_wakes_the_receiver_that_has_waited_longest() -> None:
    arrivals = Arrivals(FakeClock(now=0))
    first, second = started(wait(arrivals), wait(arrivals))
    await settle_down()
    arrivals.ready(QUEUE, 1)
    assert await first is True
    await settle_down()
    assert not second.done()
    second.cancel()


async def test_as_many_receivers_wake_as_messages_arrive() -> None:
    arrivals = Arrivals(FakeClock(now=0))
    waiters = started(*(wait(arrivals) for _ in range(3)))
    await settle_down()
    arrivals.ready(QUEUE, 2)
    await settle_down()
    assert [waiter.done() for waiter in waiters] == [True, True, False]
    waiters[2].cancel()


async def test_an_arrival_elsewhere_wakes_nobody_here() -> None:
    arrivals = Arrivals(FakeClock(now=0))
    (waiter,) = started(wait(arrivals))
    await settle_down()
    arrivals.ready(OTHER, 1)
    await settle_down()
    assert not waiter.done()
    waiter.cancel()


async def test_what_arrived_between_the_look_and_the_wait_ends_the_wait_at_once() -> None:
    arrivals = Arrivals(FakeClock(now=0))
    seen = arrivals.seen(QUEUE)
    arrivals.ready(QUEUE, 1)
    assert await arrivals.wait(QUEUE, seen=seen, until=100) is True


async def test_what_arrived_meanwhile_calls_back_as_many_as_it_is() -> None:
    """And not all who looked in vain at the time: they would look for ever."""
    arrivals = Arrivals(FakeClock(now=0))
    seen = arrivals.seen(QUEUE)
    (waiter,) = started(wait(arrivals))
    await settle_down()
    arrivals.ready(QUEUE, 3)  # one for the waiter, two for those who are looking
    lookers = started(*(arrivals.wait(QUEUE, seen=seen, until=100) for _ in range(4)))
    await settle_down()
    assert await waiter is True
    assert [looker.done() for looker in lookers] == [True, True, False, False]
    arrivals.ready(QUEUE, 2)
    assert await asyncio.gather(*lookers) == [True] * 4


async def test_a_wait_ends_empty_handed_at_its_time() -> None:
    clock = FakeClock(now=0)
    arrivals = Arrivals(clock)
    (waiter,) = started(wait(arrivals, until=100))
    await settle_down()
    clock.advance(ms=100)
    assert await waiter is False


async def test_a_receiver_that_goes_away_passes_its_wake_up_on() -> None:
    arrivals = Arrivals(FakeClock(now=0))
    first, second = started(wait(arrivals), wait(arrivals))
    await settle_down()
    arrivals.ready(QUEUE, 1)
    first.cancel()  # before it could act on the wake-up
    assert await second is True


async def test_a_receiver_that_gave_up_is_not_counted_as_woken() -> None:
    arrivals = Arrivals(FakeClock(now=0))
    first, second = started(wait(arrivals), wait(arrivals))
    await settle_down()
    first.cancel()
    await settle_down()
    arrivals.ready(QUEUE, 1)
    assert await second is True


async def test_a_receiver_that_goes_away_while_it_looks_passes_its_wake_up_on() -> None:
    arrivals = Arrivals(FakeClock(now=0))
    (waiter,) = started(wait(arrivals))
    await settle_down()
    with pytest.raises(asyncio.CancelledError), arrivals.looking(QUEUE, woken=False):
        raise asyncio.CancelledError
    await settle_down()
    assert not waiter.done()  # nobody was woken, so there is nothing to pass on
    with pytest.raises(asyncio.CancelledError), arrivals.looking(QUEUE, woken=True):
        raise asyncio.CancelledError
    assert await waiter is True


async def test_a_receiver_whose_look_fails_passes_its_wake_up_on() -> None:
    arrivals = Arrivals(FakeClock(now=0))
    (waiter,) = started(wait(arrivals))
    await settle_down()
    with pytest.raises(Unavailable), arrivals.looking(QUEUE, woken=True):
        raise Unavailable("the database is out of reach")
    assert await waiter is True


async def test_closing_sends_everybody_home() -> None:
    arrivals = Arrivals(FakeClock(now=0))
    waiters = started(wait(arrivals), wait(arrivals, OTHER))
    await settle_down()
    arrivals.close()
    assert await asyncio.gather(*waiters) == [False, False]
    assert await wait(arrivals) is False


async def test_every_receiver_of_a_deleted_queue_wakes() -> None:
    arrivals = Arrivals(FakeClock(now=0))
    here, there = started(wait(arrivals), wait(arrivals)), started(wait(arrivals, OTHER))
    await settle_down()
    arrivals.gone(QUEUE)
    assert await asyncio.gather(*here) == [True, True]
    assert not there[0].done()
    there[0].cancel()
