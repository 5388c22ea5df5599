"""JSON in its compact form."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.core.json_size import compact

CHARACTERS = st.characters() | st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF, categories=["Cs"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(CHARACTERS),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(CHARACTERS), inner, max_size=5),
    max_leaves=20,
)


def compact_size(value: Any) -> int:
    """The bytes that JavaScript's JSON.stringify would write: halves of surrogate pairs stay escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return sum(6 if "\ud800" <= character <= "\udfff" else len(character.encode()) for character in text)


@given(VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_blanks_and_needless_escapes_do_not_count(value: Any, indent: Any, escaped: bool) -> None:
    value = json.loads(json.dumps(value))  # two halves side by side are one character
    text = json.dumps(value, indent=indent, ensure_ascii=escaped).encode("utf-8", "backslashreplace")
    assert len(compact(text)) == compact_size(value)
    assert json.loads(compact(text)) == value
    assert len(compact(text)) <= len(text)


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (rb'{ "a" : [ 1 , 2 ] }', rb'{"a":[1,2]}'),
        (rb'"\u00fc\/\u0041"', '"ü/A"'.encode()),
        (rb'"\u000a\u0001\u0022\u005c"', rb'"\n\u0001\"\\"'),
        (rb'"\\u0041 \" \\"', rb'"\\u0041 \" \\"'),
        (rb'"\ud83d\ude00 \ud83d"', '"😀 \\ud83d"'.encode()),
        (rb"1.50e+2", rb"1.50e+2"),
    ],
)
def test_the_compact_form_of(text: bytes, short: bytes) -> None:
    assert compact(text) == short
