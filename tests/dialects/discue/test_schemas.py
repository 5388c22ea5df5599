"""Discue's schema language: what is a schema, and what a message must look like."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from couriermq.core.errors import Invalid
from couriermq.dialects.discue.schemas import check_data, check_schema, matches, schema_id
from tests.support.discue import Organization, discue_organization, refused

VENDORS: dict[str, Any] = {
    "person": {
        "type": "object",
        "props": {
            "name": {"type": "string", "pattern": "abc", "required": True},
            "street": {"type": "string", "min": 5, "max": 10},
            "city": {"type": "string", "enum": ["Berlin"]},
        },
    },
    "count": {"type": "number", "min": 0, "max": 15, "required": False},
    "list": {"type": "array", "items": {"type": "string", "pattern": "abc", "required": True}},
}
GOOD: dict[str, Any] = {
    "person": {"name": "xabcx", "street": "Allee", "city": "Berlin"},
    "count": 15,
    "list": ["abc", "abcd"],
}


def fits(schema: dict[str, Any], value: Any) -> bool:
    try:
        check_data(schema, msgspec.json.encode(value).decode())
    except Invalid:
        return False
    return True


def test_the_vendors_example_is_a_schema_and_takes_what_it_describes() -> None:
    assert check_schema(VENDORS) == VENDORS
    assert fits(VENDORS, GOOD)


@pytest.mark.parametrize(
    "change",
    [
        {"person": None},
        {"person": "abc"},
        {"person": {**GOOD["person"], "name": "x"}},
        {"person": {**GOOD["person"], "name": None}},
        {"person": {**GOOD["person"], "street": "Weg"}},
        {"person": {**GOOD["person"], "street": "Kurfürstendamm"}},
        {"person": {**GOOD["person"], "city": "Bonn"}},
        {"person": {**GOOD["person"], "age": 7}},
        {"person": {"name": "abc", "street": "Allee"}},
        {"count": -1},
        {"count": 16},
        {"count": "7"},
        {"count": True},
        {"list": "abc"},
        {"list": ["abc", "x"]},
        {"list": ["abc", None]},
        {"list": ["abc", 7]},
        {"unknown": 1},
    ],
)
def test_what_the_schema_does_not_allow_does_not_fit(change: dict[str, Any]) -> None:
    assert not fits(VENDORS, GOOD | change)


@pytest.mark.parametrize("count", [0, 15, 7.5, None])
def test_what_is_not_required_may_be_null_or_absent(count: object) -> None:
    assert fits(VENDORS, GOOD | {"count": count})
    assert fits(VENDORS, {key: value for key, value in GOOD.items() if key != "count"})


def test_an_object_that_is_not_strict_takes_more_than_it_names() -> None:
    schema = {"any": {"type": "object", "strict": False, "props": {"id": {"type": "number"}}}}
    assert fits(schema, {"any": {"id": 1, "more": 2}})
    assert not fits(schema, {"any": {"more": 2}})


@pytest.mark.parametrize("data", ["", "{", "[]", "7", '"x"', "null"])
def test_data_must_be_a_json_object(data: str) -> None:
    with pytest.raises(Invalid):
        check_data({"a": {"type": "string", "required": False}}, data)


@pytest.mark.parametrize(
    "schema",
    [
        [],
        "x",
        7,
        {"a": None},
        {"a": {}},
        {"a": {"type": "date"}},
        {"a": {"type": {}}},
        {"a": {"type": ["string"]}},
        {"a": {"type": "number", "min": 10**30}},
        {"a": {"type": "string", "max": 1e300}},
        {"a": {"type": "object"}},
        {"a": {"type": "object", "props": {}}},
        {"a": {"type": "object", "props": {"b": {"type": "nothing"}}}},
        {"a": {"type": "array"}},
        {"a": {"type": "array", "items": {"type": "object"}}},
        {"a": {"type": "string", "min": -1}},
        {"a": {"type": "string", "min": 1.5}},
        {"a": {"type": "string", "min": 3, "max": 2}},
        {"a": {"type": "string", "enum": []}},
        {"a": {"type": "string", "enum": [1]}},
        {"a": {"type": "string", "pattern": "("}},
        {"a": {"type": "string", "pattern": r"(a)\1"}},
        {"a": {"type": "string", "pattern": "/a/q"}},
        {"a": {"type": "string", "pattern": "x" * 1_001}},
        {"a": {"type": "string", "pattern": 7}},
        {"a": {"type": "number", "pattern": "x"}},
        {"a": {"type": "number", "min": "x"}},
        {"a": {"type": "number", "required": "yes"}},
        {"a": {"type": "number", "maximum": 7}},
        {str(number): {"type": "number"} for number in range(1_001)},
        {"a": {"type": "string", "enum": ["x" * 70_000]}},
    ],
)
def test_what_could_never_mean_anything_is_not_a_schema(schema: Any) -> None:
    with pytest.raises(Invalid):
        check_schema(schema)


def test_a_schema_is_not_nested_for_ever() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(30):
        schema = {"type": "array", "items": schema}
    with pytest.raises(Invalid, match="nested"):
        check_schema({"a": schema})


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("abc", "xabcx", True),
        ("^abc$", "xabcx", False),
        ("/.*/", "anything", True),
        ("/^ABC$/i", "abc", True),
        ("/^ABC$/", "abc", False),
        ("/^b$/m", "a\nb", True),
        ("ü", "Kür", True),
        (r"^\d{3}$", "123", True),
    ],
)
def test_patterns_are_found_anywhere_in_a_string(pattern: str, text: str, expected: bool) -> None:
    assert matches(pattern, text) is expected


def test_no_pattern_can_stop_the_server() -> None:
    assert not matches("^(a+)+$", "a" * 100_000 + "!")


def test_a_schema_id_is_a_hash_that_does_not_depend_on_the_order_of_keys() -> None:
    one, other = {"a": {"type": "number", "min": 1}}, {"a": {"min": 1, "type": "number"}}
    assert schema_id(one) == schema_id(other)
    assert schema_id(one) != schema_id({"a": {"type": "number", "min": 2}})
    assert len(bytes.fromhex(schema_id(one))) == 32


@pytest.fixture
async def org(tmp_path: Path) -> AsyncIterator[Organization]:
    async with discue_organization(tmp_path) as organization:
        yield organization


async def test_a_message_that_does_not_fit_is_refused_and_nothing_is_stored(org: Organization) -> None:
    queue_id = await org.queue(schema=VENDORS)
    path = f"/queues/{queue_id}/messages"
    bad = msgspec.json.encode(GOOD | {"count": 99}).decode()
    assert refused(await org.call("POST", path, {"data": bad}), 422) == "data.count must be at most 15"
    assert "not JSON" in refused(await org.call("POST", path, {"data": "hello"}), 422)
    assert await org.count(queue_id) == 0
    assert await org.add(queue_id, msgspec.json.encode(GOOD).decode())


async def test_a_queue_is_not_made_with_a_schema_that_is_none(org: Organization) -> None:
    order = {"name": "orders", "schema": {"a": {"type": "date"}}}
    assert refused(await org.call("POST", "/queues", order), 422).startswith("schema.a has a type")
    assert (await org.get("/queues"))["queues"] == []


async def test_without_its_schema_a_queue_takes_anything_again(org: Organization) -> None:
    queue_id = await org.queue(schema=VENDORS)
    await org.put(f"/queues/{queue_id}", {"schema": {}})
    assert await org.add(queue_id, "anything")


@pytest.mark.parametrize("annotation", [7, "x", {"a": 7}, {"a": {"type": "object"}}, {}])
async def test_an_annotation_that_is_no_schema_is_shrugged_off(org: Organization, annotation: Any) -> None:
    queue_id = await org.queue("orders")
    path = "/courier/v1/tenants/default/queues/orders"
    changed = await org.app.request("PATCH", path, json={"annotations": {"discue.schema": annotation}})
    assert changed.status == 200
    assert "schema" not in (await org.get(f"/queues/{queue_id}"))["queue"]
    assert await org.add(queue_id, "anything")
