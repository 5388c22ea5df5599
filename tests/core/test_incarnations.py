"""How far numbers jump at a new incarnation, and how readers get across."""

import pytest

from couriermq.core.incarnations import JUMP, Counters, Identity, NumbersUsedUp, begin, combined, distance
from couriermq.core.jumps import Jump, backward, count, end_of_stretch, forward, is_lost, skip, stretches
from couriermq.core.lanes import LANE_SIZE
from couriermq.core.model import DAY
from couriermq.core.shards import STEP

JUMPS = (Jump(10, 100), Jump(120, 1_000))
STORE = Identity(store="s")


def counters(*, offset: int = 0, seq: int = 1, newest_at: int = 0) -> Counters:
    return Counters(next_seq=seq, seq_end=STEP, next_offsets=[offset], newest_at=newest_at)


def test_a_jump_goes_farther_the_older_the_copy_is() -> None:
    assert distance(0) == distance(-5) == JUMP
    assert distance(DAY) == JUMP + 64 * DAY
    assert distance(400 * DAY) == JUMP + 64 * 10 * DAY + 390 * DAY


def test_several_hundred_restores_of_recent_copies_are_possible() -> None:
    identity, offset, seq = STORE, 0, 1
    for _ in range(200):
        identity = begin(identity, counters(offset=offset, seq=seq), now=DAY, tag=7, reason="")
        offset, seq = identity.present.jumps[0].first + 1, identity.present.first_seq + 1
    assert identity.present.number == 201


def test_a_store_whose_numbers_are_used_up_refuses_and_says_so() -> None:
    with pytest.raises(NumbersUsedUp, match="import them into a new store"):
        begin(STORE, counters(offset=LANE_SIZE - JUMP), now=0, tag=7, reason="")
    with pytest.raises(NumbersUsedUp):
        begin(STORE, counters(seq=STEP - JUMP), now=0, tag=7, reason="")


def test_offsets_stay_in_their_journal() -> None:
    found = begin(STORE, counters(offset=3 * LANE_SIZE + 5), now=0, tag=7, reason="")
    assert found.present.jumps == (Jump(3 * LANE_SIZE + 5, 3 * LANE_SIZE + 5 + JUMP),)


def test_a_name_tells_apart_two_incarnations_from_one_copy() -> None:
    one, other = (begin(STORE, counters(), now=0, tag=tag, reason="") for tag in (7, 8))
    assert one.present.number == other.present.number == 2
    assert one.stamp != other.stamp
    assert STORE.stamp.text == "s/1"


def test_a_store_of_several_databases_has_a_new_stamp_when_any_was_restored() -> None:
    home, shard = STORE, Identity(store="t")
    restored = begin(shard, counters(), now=0, tag=7, reason="")
    stamps = [combined(ones) for ones in ([home], [home, shard], [home, restored])]
    assert stamps[0] == stamps[1] == home.stamp
    assert stamps[2].store == "s"
    assert stamps[2] != home.stamp


def test_an_offset_at_which_a_jump_begins_goes_on_behind_it() -> None:
    assert [skip(JUMPS, offset) for offset in (9, 10, 50, 99, 100, 120)] == [9, 100, 100, 100, 100, 1_000]


def test_only_offsets_inside_a_jump_are_lost() -> None:
    assert [offset for offset in (9, 10, 11, 99, 100, 119, 120, 121, 1_000) if is_lost(JUMPS, offset)] == [11, 99, 121]


def test_a_range_is_read_without_its_jumps() -> None:
    assert stretches(JUMPS, 5, 1_003) == [(5, 10), (100, 120), (1_000, 1_003)]
    assert stretches(JUMPS, 10, 110) == [(100, 110)]
    assert stretches(JUMPS, 5, 10) == [(5, 10)]
    assert stretches(JUMPS, 10, 100) == []
    assert count(JUMPS, 5, 1_003) == 28
    assert [end_of_stretch(JUMPS, offset) for offset in (5, 10, 100, 1_000)] == [10, 120, 120, None]


@pytest.mark.parametrize("start", [0, 5, 9, 100, 119, 1_000])
@pytest.mark.parametrize("steps", [0, 1, 5, 24, 100])
def test_counting_forward_and_backward_passes_over_jumps(start: int, steps: int) -> None:
    stop = forward(JUMPS, start, steps)
    assert count(JUMPS, start, stop) == steps
    assert not is_lost(JUMPS, stop)
    assert skip(JUMPS, backward(JUMPS, stop, steps)) == start
