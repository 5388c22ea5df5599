"""Ids as 32 hex digits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.clock import FakeClock, mint_id
from couriermq.core.hex_ids import HEX_ID, hex_of, id_of

OURS = st.from_regex(r"[A-Za-z0-9-]{21}", fullmatch=True)


@given(OURS)
def test_an_id_of_ours_is_read_back_from_its_hex_digits(our_id: str) -> None:
    assert HEX_ID.fullmatch(hex_of(our_id))
    assert id_of(hex_of(our_id)) == our_id


@given(st.from_regex(r"[0-9a-f]{32}", fullmatch=True))
def test_hex_digits_stand_for_one_id_at_most(digits: str) -> None:
    our_id = id_of(digits)
    assert hex_of(digits) == digits
    assert our_id is None or hex_of(our_id) == digits


@given(st.text())
def test_any_text_has_hex_digits(text: str) -> None:
    assert HEX_ID.fullmatch(hex_of(text))


@pytest.mark.parametrize("text", ["", "orders", "0" * 31, "A" * 32, "f" * 32])
def test_what_is_no_id_in_hex_digits_is_not_read(text: str) -> None:
    assert id_of(text) is None


def test_a_minted_id_fits() -> None:
    minted = mint_id(FakeClock())
    assert id_of(hex_of(minted)) == minted
