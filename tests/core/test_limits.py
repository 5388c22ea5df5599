"""What is allowed, tried on both sides of every border."""

import contextlib
import re
import string
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.core import limits
from couriermq.core.errors import BodyTooLarge, Invalid
from couriermq.core.model import Draft, Queue, QueueSettings

QUEUE = Queue(key=1, id="q", tenant="t", name="orders", settings=QueueSettings(max_body_bytes=10))
ALNUM = string.ascii_letters + string.digits


def refusal_of(**parts: Any) -> str | None:
    """The field that a draft with these parts is refused for."""
    refusal = limits.check_draft(Draft(body=parts.pop("body", b""), **parts), QUEUE)
    assert refusal is None or isinstance(refusal, Invalid)
    return refusal.field if refusal else None


def allows(check: Callable[[str], None], text: str) -> bool:
    with contextlib.suppress(Invalid):
        check(text)
        return True
    return False


@given(name=st.text("aZ9._-/ é\n", max_size=6) | st.text(ALNUM, min_size=124, max_size=130))
def test_a_name_is_short_plain_and_starts_with_a_letter_or_digit(name: str) -> None:
    plain = set(name) <= set(ALNUM + "._-/")
    expected = 1 <= len(name) <= 127 and plain and name[0] in ALNUM and not name.endswith("/")
    assert allows(limits.check_name, name) == expected


@given(tenant=st.text("aZ9._-/ é\n", max_size=6) | st.text(ALNUM, min_size=125, max_size=131))
def test_a_tenant_id_has_no_slash(tenant: str) -> None:
    plain = set(tenant) <= set(ALNUM + "._-")
    assert allows(limits.check_tenant, tenant) == (1 <= len(tenant) <= 128 and plain and tenant[0] in ALNUM)


SETTING_BORDERS = [
    (field, value, allowed)
    for field, (low, high) in limits.SETTING_RANGES.items()
    for value, allowed in ((low - 1, False), (low, True), (high, True), (high + 1, False))
]


@pytest.mark.parametrize(("field", "value", "allowed"), SETTING_BORDERS)
def test_a_setting_is_allowed_exactly_inside_its_range(field: str, value: int, allowed: bool) -> None:
    settings = msgspec.structs.replace(QueueSettings(), **{field: value})
    if allowed:
        limits.check_settings(settings)
        return
    with pytest.raises(Invalid, match=f"{field} is {value}; choose from") as refusal:
        limits.check_settings(settings)
    assert refusal.value.field == field


def test_the_settings_of_a_new_queue_are_allowed() -> None:
    limits.check_settings(QueueSettings())


DRAFT_BORDERS: list[tuple[str, Any, bool]] = [
    ("body", b"x" * 10, True),
    ("body", b"x" * 11, False),
    ("id", "", False),
    ("id", "x", True),
    ("id", "x" * limits.ID_CHARS, True),
    ("id", "x" * (limits.ID_CHARS + 1), False),
    ("delay_ms", -1, False),
    ("delay_ms", 0, True),
    ("delay_ms", limits.DELAY_MS, True),
    ("delay_ms", limits.DELAY_MS + 1, False),
    ("retention_ms", 0, False),
    ("retention_ms", 1, True),
    ("retention_ms", limits.RETENTION_MS, True),
    ("retention_ms", limits.RETENTION_MS + 1, False),
    ("group", "", True),
    ("group", "x" * limits.GROUP_CHARS, True),
    ("group", "x" * (limits.GROUP_CHARS + 1), False),
    ("dedup_id", "", False),
    ("dedup_id", "x" * limits.ID_CHARS, True),
    ("dedup_id", "x" * (limits.ID_CHARS + 1), False),
    ("content_type", "x" * limits.CONTENT_TYPE_CHARS, True),
    ("content_type", "x" * (limits.CONTENT_TYPE_CHARS + 1), False),
    ("attributes", {str(n): n for n in range(limits.ATTRIBUTE_COUNT)}, True),
    ("attributes", {str(n): n for n in range(limits.ATTRIBUTE_COUNT + 1)}, False),
    ("attributes", {"a": "x" * (limits.ATTRIBUTE_BYTES - 1)}, True),
    ("attributes", {"a": "x" * limits.ATTRIBUTE_BYTES}, False),
    ("attributes", {"a": True, "b": -1, "c": 1.5, "d": ""}, True),
    ("attributes", {"a": None}, False),
    ("attributes", {"a": [1]}, False),
    ("attributes", {"a": float("nan")}, False),
    ("attributes", {"a": float("-inf")}, False),
    ("attributes", {"a": 2**63 - 1}, True),
    ("attributes", {"a": 2**63}, False),
    ("attributes", {"a": -(2**63)}, True),
    ("attributes", {"a": -(2**63) - 1}, False),
]


@pytest.mark.parametrize(("field", "value", "allowed"), DRAFT_BORDERS, ids=lambda value: repr(value)[:20])
def test_a_draft_is_refused_for_the_part_that_is_wrong(field: str, value: Any, allowed: bool) -> None:
    assert refusal_of(**{field: value}) == (None if allowed else field)


def test_a_body_that_is_too_large_tells_both_sizes() -> None:
    refusal = limits.check_draft(Draft(body=b"x" * 11), QUEUE)
    assert isinstance(refusal, BodyTooLarge)
    assert (refusal.size, refusal.limit) == (11, 10)


@given(value=st.integers(-5, 15), low=st.integers(0, 5), high=st.integers(5, 10))
def test_a_range_includes_both_ends(value: int, low: int, high: int) -> None:
    if low <= value <= high:
        limits.check_range("count", value, low, high)
    else:
        with pytest.raises(Invalid, match=re.escape(f"count is {value}; choose from {low} to {high}")):
            limits.check_range("count", value, low, high)
