"""A wait that is in vain says what it waited for, and what it saw."""

import asyncio

import pytest

from tests.support.eventually import eventually, eventually_sync


async def test_the_first_right_thing_is_given() -> None:
    numbers = iter(range(10))

    async def look() -> int:
        return next(numbers)

    assert await eventually(look) == 1
    assert await eventually(lambda: next(numbers), lambda number: number > 5) == 6
    assert eventually_sync(lambda: next(numbers), lambda number: number > 7) == 8


async def test_a_wait_in_vain_shows_the_look_the_last_thing_seen_and_what_it_depends_on() -> None:
    arrived = ["one", "two"]
    with pytest.raises(AssertionError, match=r"len\(arrived\)(.|\n)*last seen: 2\narrived = \['one', 'two'\]"):
        await eventually(lambda: len(arrived), lambda count: count > 2, seconds=0.01)
    with pytest.raises(AssertionError, match=r"last seen: 2\narrived = \['one', 'two'\]\nthe end of a log"):
        eventually_sync(lambda: len(arrived), lambda count: count > 2, seconds=0.01, tell=lambda: "the end of a log")


async def test_a_look_that_never_comes_back_is_not_waited_for() -> None:
    with pytest.raises(AssertionError, match="it never came back"):
        await eventually(asyncio.Event().wait, seconds=0.01)
