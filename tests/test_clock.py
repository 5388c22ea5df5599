"""The clock that tests move by hand, and the one that nobody can set back."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from couriermq.clock import ID_ALPHABET, ID_LENGTH, FakeClock, SystemClock, mint_id


async def settle_down() -> None:
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_sleeper_wakes_when_its_instant_has_come_and_not_before() -> None:
    clock = FakeClock(now=1_000)
    sleeper = asyncio.create_task(clock.sleep_until(1_500))
    await settle_down()
    clock.advance(ms=499)
    await settle_down()
    assert not sleeper.done()
    clock.advance(ms=1)
    await sleeper


async def test_sleepers_wake_in_the_order_of_their_instants() -> None:
    clock, woken = FakeClock(now=0), []

    async def sleep(at: int) -> None:
        await clock.sleep_until(at)
        woken.append(at)

    sleepers = [asyncio.create_task(sleep(at)) for at in (30, 10, 20)]
    await settle_down()
    clock.advance(ms=100)
    await asyncio.gather(*sleepers)
    assert woken == [10, 20, 30]


async def test_a_sleeper_that_gave_up_does_not_disturb_the_others() -> None:
    clock = FakeClock(now=0)
    gone, stays = (asyncio.create_task(clock.sleep_until(at)) for at in (10, 20))
    await settle_down()
    gone.cancel()
    await settle_down()
    clock.advance(ms=20)
    await stays


async def test_nobody_sleeps_until_the_past() -> None:
    await FakeClock(now=5).sleep_until(5)
    await SystemClock().sleep_until(0)


def test_the_system_clock_never_runs_backwards() -> None:
    clock = SystemClock()
    readings = [clock.now() for _ in range(1_000)]
    assert readings == sorted(readings)


async def test_the_system_clock_has_reached_the_instant_when_a_sleeper_wakes() -> None:
    clock = SystemClock()
    until = clock.now() + 2
    await clock.sleep_until(until)
    assert clock.now() >= until


def test_the_dice_of_the_system_clock_do_not_repeat() -> None:
    clock = SystemClock()
    throws = {clock.random_bytes(16) for _ in range(100)}
    assert len(throws) == 100
    assert {len(throw) for throw in throws} == {16}


@given(count=st.integers(2, 50))
def test_minted_ids_differ_and_suit_every_dialect(count: int) -> None:
    for clock in (FakeClock(), SystemClock()):
        minted = [mint_id(clock) for _ in range(count)]
        assert len(set(minted)) == count
        assert all(len(each) == ID_LENGTH and set(each) <= set(ID_ALPHABET) for each in minted)
