"""Offsets of one shard and of several, without Spark."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.core.shards import STEP
from couriermq.spark.journal import SMALL_REST, Journal, Span, ranges
from couriermq.spark.offsets import advance, backlog, check_position, locate, read_offsets, stretches
from couriermq.spark.options import OptionError, read_options


class TwoShards(Journal):
    """A journal as a server with two shards tells of it."""

    def spans(self) -> dict[int, Span]:
        return {16: Span(STEP + 2, STEP + 50), 0: Span(5, 100)}

    def offsets_at(self, at: int) -> dict[int, int]:
        return {16: STEP + at, 0: at}


JOURNAL = TwoShards("http://courier")


@pytest.mark.parametrize(
    ("position", "offsets"),
    [
        ("earliest", {"0": 5, "1": STEP + 2}),
        ("latest", {"0": 100, "1": STEP + 50}),
        ("42", {"0": 42, "1": STEP + 2}),
        (str(STEP + 9), {"0": 5, "1": STEP + 9}),
        (f'{{"1": {STEP + 3}, "0": 7}}', {"0": 7, "1": STEP + 3}),
        ("1970-01-01T00:00:00.033Z", {"0": 33, "1": STEP + 33}),
    ],
)
def test_a_position_means_an_offset_in_each_shard(position: str, offsets: dict[str, int]) -> None:
    check_position(position)
    found = locate(JOURNAL, position, others=lambda span: span.oldest)
    assert (found, list(found)) == (offsets, sorted(offsets))  # Spark compares texts: the order counts


def test_shards_that_an_end_does_not_speak_of_are_read_to_their_end() -> None:
    assert locate(JOURNAL, "42", others=lambda span: span.next) == {"0": 42, "1": STEP + 50}


@pytest.mark.parametrize("position", ["soon", "{", '{"0": "x"}', "-1", ""])
def test_a_position_that_means_nothing_is_refused(position: str) -> None:
    with pytest.raises(OptionError, match="startingOffset is"):
        read_options({"startingOffset": position})


@pytest.mark.parametrize(
    ("most", "end"),
    [
        (None, {"0": 100, "1": STEP + 10}),
        (8, {"0": 4, "1": STEP + 4}),
        (30, {"0": 20, "1": STEP + 10}),  # the second has only ten, the first takes what is left
        (1, {"0": 0, "1": STEP + 1}),
        (1_000, {"0": 100, "1": STEP + 10}),
    ],
)
def test_a_limit_is_shared_among_the_shards(most: int | None, end: dict[str, int]) -> None:
    assert advance({"0": 0, "1": STEP}, {"0": 100, "1": STEP + 10}, most) == end


def test_a_shard_that_was_added_is_read_from_its_beginning() -> None:
    assert advance({"0": 7}, {"0": 7, "1": STEP + 3}, None) == {"0": 7, "1": STEP + 3}
    assert stretches({"0": 7}, {"0": 7, "1": STEP + 3}) == [(STEP, STEP + 3)]


def test_an_offset_never_goes_back() -> None:
    assert advance({"0": 9, "1": STEP}, {"0": 4}, 5) == {"0": 9, "1": STEP}


def test_the_backlog_is_the_distance_in_all_shards() -> None:
    end, newest = read_offsets(f'{{"0": 4, "1": {STEP}}}'), read_offsets(f'{{"0": 10, "1": {STEP + 5}}}')
    assert backlog(end, newest) == 11
    assert read_offsets("null") == read_offsets(None) == {}


@given(
    start=st.integers(0, 10**6),
    count=st.integers(0, 10**4),
    step=st.integers(1, 10**4),
    segments=st.lists(st.integers(1, 5_000), max_size=20),
)
def test_pieces_of_a_stretch_follow_each_other_and_none_is_hardly_worth_a_task(
    start: int, count: int, step: int, segments: list[int]
) -> None:
    borders = [border for border in accumulate(segments, initial=start) if start < border < start + count]
    pieces = ranges(start, start + count, step, borders)
    assert [offset for begin, stop in pieces for offset in range(begin, stop)] == list(range(start, start + count))
    assert all(stop - begin < step + max(1, step // SMALL_REST) for begin, stop in pieces)
    assert all(stop - begin >= step // SMALL_REST for begin, stop in pieces[1:])


def test_pieces_end_where_segments_end_if_that_is_near() -> None:
    assert ranges(0, 300, 100, [90, 120, 250]) == [(0, 90), (90, 190), (190, 300)]
    assert ranges(0, 300, 100, [97, 104, 198, 207]) == [(0, 97), (97, 198), (198, 300)]
    assert ranges(0, 125, 100, [124]) == [(0, 100), (100, 125)]
    assert ranges(0, 300, 100, [60, 140, 240]) == [(0, 100), (100, 200), (200, 300)]
