"""The numbers that a tenant sees instead of the store's own."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.core.errors import Invalid
from couriermq.core.numbers import PLAIN, Numbering, Numbers
from couriermq.core.permutation import END, Permutation
from couriermq.core.receipts import Blocks

DICE = itertools.count()


def dice(count: int) -> bytes:
    return next(DICE).to_bytes(count, "big")


NUMBERING = Numbering(b"k" * 32, dice)
ACME, SHOP = NUMBERING.of("acme"), NUMBERING.of("shop")
SEQS = st.integers(1, END - 1)


@given(seq=SEQS)
def test_a_number_leads_back_to_the_one_that_it_stands_for(seq: int) -> None:
    assert 0 < ACME.seq(seq) < END
    assert ACME.true_seq(ACME.seq(seq)) == seq
    assert ACME.true_offset(ACME.offset(seq - 1)) == seq - 1


@given(seqs=st.lists(SEQS, max_size=600))
def test_many_numbers_are_those_that_each_has_alone(seqs: list[int]) -> None:
    assert ACME.seqs(seqs) == [ACME.seq(seq) for seq in seqs]
    assert ACME.offsets([seq - 1 for seq in seqs]) == [ACME.offset(seq - 1) for seq in seqs]


def test_numbers_that_follow_each_other_become_numbers_that_do_not() -> None:
    shown = ACME.seqs(range(1, 10_001))
    assert len(set(shown)) == 10_000
    ascents = sum(first < second for first, second in itertools.pairwise(shown))
    assert 4_500 < ascents < 5_500
    assert min(abs(second - first) for first, second in itertools.pairwise(shown)) > 10**6
    assert 0.4 < sum(shown) / len(shown) / END < 0.6


def test_tenants_and_kinds_of_numbers_have_nothing_in_common() -> None:
    numbers = range(1, 1_001)
    images = [ACME.seqs(numbers), SHOP.seqs(numbers), ACME.offsets(numbers), SHOP.offsets(numbers)]
    assert all(set(one).isdisjoint(other) for one, other in itertools.combinations(images, 2))
    again = Numbering(b"k" * 32, dice).of("acme")
    assert again.seqs(numbers) == ACME.seqs(numbers)
    assert set(Numbering(b"j" * 32, dice).of("acme").seqs(numbers)).isdisjoint(ACME.seqs(numbers))


def test_zero_is_no_number_and_has_no_image() -> None:
    for tweak in range(20):
        permutation = Permutation(Blocks(b"k" * 32, b"seq"), tweak)
        before_zero = permutation._backward(0)
        image = permutation.image(before_zero)
        assert image != 0
        assert permutation.number(image) == before_zero
        assert permutation.images([before_zero] * 5) == [image] * 5
    assert permutation.number(0) is None
    assert permutation.number(END) is None


def test_root_sees_the_numbers_of_the_store() -> None:
    assert NUMBERING.of(None) is PLAIN
    assert (PLAIN.seq(7), PLAIN.offset(8), PLAIN.position(9)) == (7, 8, 9)
    assert (PLAIN.true_seq(7), PLAIN.true_offset(8), PLAIN.true_position("9", field="from")) == (7, 8, 9)
    assert PLAIN.cursor("17-4") == PLAIN.true_cursor("17-4", field="after") == "17-4"
    assert PLAIN.message_id("erased-3", 3) == "erased-3"


@given(offset=st.integers(0, 2**63 - 1))
def test_a_position_is_a_new_text_each_time_and_means_the_same(offset: int) -> None:
    first, second = str(ACME.position(offset)), str(ACME.position(offset))
    assert first != second
    assert len(first) == len(second) == 60
    assert ACME.true_position(first, field="from") == ACME.true_position(second, field="from") == offset


@given(text=st.text(max_size=90) | st.binary(max_size=90).map(bytes.hex))
def test_a_text_that_was_made_up_is_refused(text: str) -> None:
    for numbers in (ACME, SHOP):
        with pytest.raises(Invalid, match="from is not a position"):
            numbers.true_position(text, field="from")
        with pytest.raises(Invalid, match="the cursor is not one"):
            numbers.true_cursor(text, field="after")


@given(at=st.integers(0, 59), letter=st.sampled_from("ABab019-_+/= é"))
def test_a_position_that_was_altered_is_refused(at: int, letter: str) -> None:
    position = str(ACME.position(17))
    altered = position[:at] + letter + position[at + 1 :]
    if altered != position:
        with pytest.raises(Invalid, match="not a position"):
            ACME.true_position(altered, field="from")


@pytest.mark.parametrize("text", [SHOP.position(5), ACME.cursor("17-5"), "5", "", str(ACME.position(5)) + "A" * 4])
def test_a_text_that_was_given_to_another_tenant_or_for_another_use_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a position that the journal gave to this tenant"):
        ACME.true_position(text, field="from")


@pytest.mark.parametrize("text", ["", "-1", "x", "1.5", "٣", str(2**63)])
def test_root_is_told_what_an_offset_is(text: str) -> None:
    with pytest.raises(Invalid, match="from is an offset"):
        PLAIN.true_position(text, field="from")


def test_a_cursor_does_not_tell_how_many_digits_its_numbers_have() -> None:
    short, long = ACME.cursor("1-1"), ACME.cursor("1700000000000-123456789")
    assert len(short or "") == len(long or "")
    assert ACME.true_cursor(short, field="after") == "1-1"
    assert ACME.cursor("1-1") != short
    assert ACME.cursor(None) is ACME.true_cursor(None, field="after") is None
    widest = "o" + "-".join(["9" * 19] * 64)
    assert ACME.true_cursor(ACME.cursor(widest), field="before") == widest


@pytest.mark.parametrize("given_id", ["erased-42", "erased-7", "erased-99999"])
def test_the_id_of_an_erased_message_tells_nothing_of_a_number_that_its_sender_chose(given_id: str) -> None:
    assert ACME.message_id(given_id, 42) == f"erased-{ACME.seq(42)}"


def test_other_ids_stay_as_they_are() -> None:
    given: list[tuple[str | None, int | None]] = [
        ("m1", 1),
        ("erased-", 1),
        ("erased-x", 1),
        (None, 1),
        ("erased-1", None),
    ]
    numbers: Numbers = ACME
    assert [numbers.message_id(message_id, seq) for message_id, seq in given] == [message_id for message_id, _ in given]
