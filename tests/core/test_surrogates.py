"""Strings with halves of surrogate pairs are read, kept and written."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.core import surrogates
from couriermq.core.surrogates import (
    blanked,
    decode,
    document_of,
    is_json,
    json_attributes,
    json_text,
    original,
    storable,
    text_bytes,
    text_of,
)

HALVES = st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF, categories=["Cs"])
TEXT = st.text(st.characters() | HALVES | st.sampled_from('\ufdd0\\"u-d83d/\x00'), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)


class Order(msgspec.Struct):
    name: str = ""
    raw: msgspec.Raw = msgspec.Raw(b"null")
    items: list[dict[str, Any]] = []


ORDER = msgspec.json.Decoder(Order)


def spelled(value: Any, escaped: bool) -> bytes:
    """JSON text that Python's own reader takes; halves are always escaped."""
    return json.dumps(value, ensure_ascii=escaped).encode("utf-8", "backslashreplace").replace(b"\\x", b"\\u00")


@given(VALUES, st.booleans())
def test_every_json_text_is_read_as_python_reads_it(value: Any, escaped: bool) -> None:
    text = spelled(value, escaped)
    assert document_of(text) == json.loads(text)
    assert is_json(text)


@given(VALUES, TEXT, st.booleans())
def test_raw_values_stay_as_they_are_written_to_the_letter(value: Any, name: str, escaped: bool) -> None:
    raw = spelled(value, escaped)
    text = b'{"name":%b,"raw":%b,"items":[{"x":%b}]}' % (spelled(name, escaped), raw, raw)
    order = decode(ORDER, text)
    assert bytes(order.raw) == raw
    assert order.name == json.loads(spelled(name, escaped))
    assert order.items == [{"x": json.loads(raw)}]


@given(TEXT)
def test_a_text_body_comes_back(text: str) -> None:
    whole = json.loads(json.dumps(text))  # two halves side by side are one character
    assert text_of(text_bytes(whole)) == whole
    assert json.loads(msgspec.json.encode(json_text(text_bytes(whole)))) == whole


@given(st.binary(max_size=30))
def test_bytes_that_are_shown_as_text_come_back_the_same(body: bytes) -> None:
    text = text_of(body)
    assert text is None or text_bytes(json.loads(json.dumps(text))) == body


@given(TEXT)
def test_an_attribute_is_kept_as_text_without_halves_and_comes_back(text: str) -> None:
    kept = storable(text)
    kept.encode()
    assert original(kept) == text


@given(st.dictionaries(TEXT, TEXT | st.integers(0, 9), max_size=4))
def test_attributes_come_back(attributes: dict[str, Any]) -> None:
    whole = json.loads(json.dumps(attributes))
    kept = surrogates.storable_attributes(whole)
    assert json.loads(msgspec.json.encode(json_attributes(kept))) == whole


@given(VALUES)
def test_blanked_json_has_no_halves_and_is_otherwise_the_same(value: Any) -> None:
    text = spelled(value, True)
    found = msgspec.json.decode(blanked(text))
    replaced = json.dumps(json.loads(text)).encode()
    assert found == msgspec.json.decode(blanked(replaced))


@pytest.mark.parametrize(
    "text",
    [b'"\\ud83', b'"\\ud83d', b'{"a":"\\ud83d"', b'["\\ud83d",]', b'"\\ud83dx\x01"', b"\\ud83d", b'"\xed\xa0\xbd"'],
)
def test_what_is_not_json_stays_so(text: bytes) -> None:
    assert not is_json(text)


def test_the_wrong_type_is_told_by_its_place() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.name"):
        decode(ORDER, b'{"name": 1, "raw": "\\ud83d"}')


def test_reading_takes_time_in_proportion_to_the_text() -> None:
    """Megabytes of escapes: anything but one pass would not end."""
    for tail in (b"\\n", b"\\\\", b"\\u00fc", "\ufdd1".encode(), b"x"):
        text = b'"\\ud83d%b"' % (tail * 1_000_000)
        assert document_of(text) == json.loads(text)
        assert not is_json(text + b"\\")
        assert len(blanked(text)) == len(text)


def test_the_number_of_halves_has_a_limit() -> None:
    most = surrogates.MOST_ESCAPES
    assert document_of(b'"%b"' % (b"\\ud83d" * most)) == "\ud83d" * most
    text = b'"%b"' % (b"\\ud83d" * (most + 1))
    with pytest.raises(msgspec.DecodeError, match="halves of surrogate pairs"):
        document_of(text)
    assert blanked(text) == text
