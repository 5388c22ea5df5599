"""The names and numbers of lanes."""

import pytest

from couriermq.core.lanes import (
    LANE_SIZE,
    SHARD_LANES,
    first_lane,
    first_of_lane,
    lane_name,
    lane_named,
    lane_of,
    shard_of_lane,
)
from couriermq.core.shards import FIRST_ERA, MOST_SHARDS, first_of, shard_of


def test_the_lanes_of_a_shard_fill_its_numbers() -> None:
    assert LANE_SIZE == 2**41
    for shard in (0, 1, MOST_SHARDS - 1):
        assert first_of_lane(first_lane(shard)) == first_of(shard)
        for lane in range(first_lane(shard), first_lane(shard) + SHARD_LANES):
            first, last = first_of_lane(lane), first_of_lane(lane + 1) - 1
            assert {shard_of(first), shard_of(last), shard_of_lane(lane)} == {shard}
            assert lane_of(first) == lane_of(last) == lane
    assert first_of_lane(first_lane(MOST_SHARDS)) == FIRST_ERA


@pytest.mark.parametrize(("lane", "name"), [(0, "0"), (1, "0.1"), (15, "0.15"), (16, "1"), (19, "1.3"), (1008, "63")])
def test_the_first_lane_of_a_shard_has_the_name_of_the_shard(lane: int, name: str) -> None:
    assert lane_name(lane) == name
    assert lane_named(name) == lane


@pytest.mark.parametrize("name", ["", "x", "0.0", "0.16", "-1", "0.", ".1", "0.01", "123", "1.2.3", "٣"])
def test_a_text_that_names_no_lane_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="does not name a lane"):
        lane_named(name)
