"""Durations, sizes and counts as people write and read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.cli.quantities import read_duration, read_size, show_age, show_count, show_duration, show_size
from couriermq.core.model import DAY, HOUR, MINUTE, SECOND


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("30s", 30 * SECOND),
        ("5m", 5 * MINUTE),
        ("2h", 2 * HOUR),
        ("4d", 4 * DAY),
        ("1w", 7 * DAY),
        ("250ms", 250),
        ("1h30m", 90 * MINUTE),
        ("1.5s", 1_500),
        ("0", 0),
        ("0s", 0),
    ],
)
def test_a_duration_is_written_with_its_units(text: str, ms: int) -> None:
    assert read_duration(text) == ms


@pytest.mark.parametrize("text", ["30", "", "s", "5 m", "-5s", "1y", "5mx", "x5m", "1.s", "1e3s"])
def test_a_duration_without_a_sensible_unit_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 30s"):
        read_duration(text)


@given(st.integers(min_value=0, max_value=4_000 * DAY))
def test_a_duration_that_was_printed_can_be_typed_in_again(ms: int) -> None:
    assert read_duration(show_duration(ms)) == ms


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (999, "0s"),
        (5_400, "5s"),
        (3 * DAY + 4 * HOUR + 5 * MINUTE, "3d4h"),
        (61 * MINUTE, "1h1m"),
        (-5, "0s"),
    ],
)
def test_an_age_is_told_in_its_two_largest_units(ms: int, text: str) -> None:
    assert show_age(ms) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("128KiB", 128 * 1024), ("10MiB", 10 * 1024**2), ("1.5kB", 1500), ("2 gb", 2 * 10**9)],
)
def test_a_size_is_written_with_or_without_a_unit(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "big", "10XB", "-1", "MiB"])
def test_a_size_that_makes_no_sense_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 4096"):
        read_size(text)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (3 * 1024**3, "3 GiB")]
)
def test_a_size_is_told_in_the_largest_unit_that_fits(size: int, text: str) -> None:
    assert show_size(size) == text


def test_counts_have_plurals_and_thousands() -> None:
    assert [show_count(n, "message") for n in (0, 1, 1200)] == ["0 messages", "1 message", "1,200 messages"]
    assert show_count(2, "entry") == "2 entries"
