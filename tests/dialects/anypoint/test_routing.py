"""Routing rules: every matcher and type, against a plain statement of what each means."""

import string
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.clock import FakeClock
from couriermq.core.model import QueueSettings
from couriermq.core.routing import check_rule, matches
from couriermq.dialects.anypoint import admin_wire
from couriermq.dialects.anypoint.limits import RULE_TEXT
from couriermq.dialects.anypoint.wire import WireMessage, read_draft
from tests.support.anypoint import AnypointCaller, good
from tests.support.inprocess import courier_app


@pytest.fixture
async def mq(tmp_path: Path) -> AsyncIterator[AnypointCaller]:
    async with courier_app(tmp_path, clock=FakeClock()) as app:
        caller = AnypointCaller(app)
        await caller.queue("orders")
        await caller.exchange("news", "orders")
        yield caller


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


STATEMENT: dict[tuple[str, str], Any] = {
    ("STRING", "EQ"): lambda value, wanted: isinstance(value, str) and value == wanted,
    ("STRING", "PREFIX"): lambda value, wanted: isinstance(value, str) and value[: len(wanted)] == wanted,
    ("STRING", "ANY_OF"): lambda value, wanted: isinstance(value, str) and any(value == one for one in wanted),
    ("STRING", "NONE_OF"): lambda value, wanted: isinstance(value, str) and all(value != one for one in wanted),
    ("STRING", "EXISTS"): lambda value, wanted: (value is not None) == wanted,
    ("NUMERIC", "EQ"): lambda value, wanted: is_number(value) and value == wanted,
    ("NUMERIC", "LT"): lambda value, wanted: is_number(value) and value < wanted,
    ("NUMERIC", "LE"): lambda value, wanted: is_number(value) and value <= wanted,
    ("NUMERIC", "GT"): lambda value, wanted: is_number(value) and value > wanted,
    ("NUMERIC", "GE"): lambda value, wanted: is_number(value) and value >= wanted,
    ("NUMERIC", "RANGE"): lambda value, wanted: is_number(value) and wanted[0] <= value <= wanted[1],
    ("NUMERIC", "NONE_OF"): lambda value, wanted: is_number(value) and all(value != one for one in wanted),
    ("NUMERIC", "EXISTS"): lambda value, wanted: (value is not None) == wanted,
}
"""What each rule means for the value of its property; None is a message without it."""

ALLOWED = string.ascii_letters + string.digits + " \t()@!&|#$%-_:;,.'"

texts = st.text(ALLOWED, min_size=1, max_size=4)
numbers = st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9) | st.integers(-3, 3)
values: dict[str, st.SearchStrategy[Any]] = {
    "STRING EQ": texts,
    "STRING PREFIX": texts,
    "STRING ANY_OF": st.lists(texts, min_size=1, max_size=5),
    "STRING NONE_OF": st.lists(texts, min_size=1, max_size=5),
    "STRING EXISTS": st.booleans(),
    "NUMERIC RANGE": st.lists(numbers, min_size=2, max_size=2, unique=True).map(sorted),
    "NUMERIC NONE_OF": st.lists(numbers, min_size=1, max_size=5),
    "NUMERIC EXISTS": st.booleans(),
}


def values_of(kind: str, matcher: str) -> st.SearchStrategy[Any]:
    return values.get(f"{kind} {matcher}", numbers)


def near(wanted: Any) -> st.SearchStrategy[Any]:
    """Values that a rule may well let through, and values of every other type."""
    candidates = wanted if isinstance(wanted, list) else [wanted]
    close = [one for one in candidates if not isinstance(one, bool)]
    extended = [one + "x" for one in close if isinstance(one, str)]
    anything = st.none() | st.booleans() | texts | numbers | st.text(max_size=3)
    return st.sampled_from([*close, *extended]) | anything if close else anything


@given(st.sampled_from(sorted(STATEMENT)), st.data())
def test_a_rule_lets_through_exactly_what_it_says(rule: tuple[str, str], data: st.DataObject) -> None:
    kind, matcher = rule
    wanted = data.draw(values_of(kind, matcher), label="wanted")
    value = data.draw(near(wanted), label="value")
    wire = admin_wire.WireRule("color", kind, matcher, wanted)
    [read] = admin_wire.read_rules(admin_wire.WireRules([wire]))
    check_rule(read)
    properties: dict[str, Any] = {"other": "x"} if value is None else {"color": value, "other": "x"}
    draft = read_draft(WireMessage(body="", properties=properties), message_id="m", queue=None)
    assert matches([read], draft.attributes) is STATEMENT[rule](value, wanted)


@given(st.sampled_from(sorted(STATEMENT)), st.data())
def test_a_rule_comes_back_as_it_was_written(rule: tuple[str, str], data: st.DataObject) -> None:
    wanted = data.draw(values_of(*rule), label="wanted")
    [read] = admin_wire.read_rules(admin_wire.WireRules([admin_wire.WireRule("color", *rule, wanted)]))
    assert admin_wire.write_rule(read) == {
        "propertyName": "color",
        "propertyType": rule[0],
        "matcherType": rule[1],
        "value": wanted,
    }


@given(st.characters(codec="utf-8"))
def test_a_rules_text_has_only_the_allowed_characters(character: str) -> None:
    assert bool(RULE_TEXT.fullmatch(character)) is (character in ALLOWED or character in "\n\r\v\f")


GOOD = {"propertyName": "color", "propertyType": "STRING", "matcherType": "EQ", "value": "red"}


@pytest.mark.parametrize(
    "change",
    [
        {"propertyName": ""},
        {"propertyName": "é" * 91},
        {"propertyType": "BOOLEAN"},
        {"matcherType": "LIKE"},
        {"matcherType": "GT"},
        {"matcherType": "RANGE", "value": ["a", "b"]},
        {"value": ""},
        {"value": 5},
        {"value": None},
        {"value": "a*b"},
        {"value": "é"},
        {"value": {"a": 1}},
        {"matcherType": "EXISTS", "value": "true"},
        {"matcherType": "ANY_OF", "value": "red"},
        {"matcherType": "ANY_OF", "value": []},
        {"matcherType": "ANY_OF", "value": ["x"] * 151},
        {"matcherType": "ANY_OF", "value": ["red", 5]},
        {"matcherType": "ANY_OF", "value": ["x" * 500] * 100},
        {"value": "x" * (45 * 1024 + 1)},
        {"propertyType": "NUMERIC", "value": "5"},
        {"propertyType": "NUMERIC", "value": True},
        {"propertyType": "NUMERIC", "value": 10**9 + 1},
        {"propertyType": "NUMERIC", "value": -(10**9) - 1},
        {"propertyType": "NUMERIC", "matcherType": "PREFIX", "value": 5},
        {"propertyType": "NUMERIC", "matcherType": "ANY_OF", "value": [5]},
        {"propertyType": "NUMERIC", "matcherType": "RANGE", "value": [5]},
        {"propertyType": "NUMERIC", "matcherType": "RANGE", "value": [5, 5]},
        {"propertyType": "NUMERIC", "matcherType": "RANGE", "value": [7, 5]},
        {"propertyType": "NUMERIC", "matcherType": "NONE_OF", "value": [1, "2"]},
    ],
)
async def test_a_rule_that_means_nothing_is_400_and_changes_nothing(mq: AnypointCaller, change: dict[str, Any]) -> None:
    assert (await mq.rule("news", "orders", GOOD)).status == 201
    response = await mq.rule("news", "orders", GOOD | change)
    assert response.status == 400, response
    assert set(response.json()) == {"message"}
    path = "/bindings/exchanges/news/queues/orders?inclusion=all"
    assert good(await mq.admin("GET", path))["routingRules"] == [GOOD]


@pytest.mark.parametrize("body", [b"{}", b"[]", b"x", b'{"routingRules": [{}]}', b'{"routingRules": {}}'])
async def test_a_body_without_rules_is_400(mq: AnypointCaller, body: bytes) -> None:
    path = "/bindings/exchanges/news/queues/orders/rules/routing"
    assert (await mq.admin("PUT", path, body=body)).status == 400


# -- through the exchange -------------------------------------------------------------------------------------


async def ids(mq: AnypointCaller, queue: str) -> list[str]:
    return [one["headers"]["messageId"] for one in await mq.consume(queue, 10)]


async def test_an_exchange_copies_to_every_queue_that_is_bound(mq: AnypointCaller) -> None:
    await mq.queue("audit")
    await mq.queue("unbound")
    good(await mq.admin("PUT", "/bindings/exchanges/news/queues/audit"))
    assert (await mq.publish("news", "m-1")).status == 201
    batch = [{"headers": {"messageId": f"m-{n}"}, "body": "x"} for n in (2, 3)]
    assert len(good(await mq.broker("PUT", "news", json=batch))) == 2
    assert await ids(mq, "orders") == await ids(mq, "audit") == ["m-1", "m-2", "m-3"]
    assert await ids(mq, "unbound") == []


async def test_an_exchange_without_bindings_takes_messages_for_nobody(mq: AnypointCaller) -> None:
    await mq.exchange("void")
    assert (await mq.publish("void", "m-1")).status == 201


async def test_rules_look_at_properties_and_at_custom_headers(mq: AnypointCaller) -> None:
    rule = {"propertyName": "itemSize", "propertyType": "NUMERIC", "matcherType": "GE", "value": 10}
    assert (await mq.rule("news", "orders", rule)).status == 201
    await mq.publish("news", "property", properties={"itemSize": 10})
    await mq.publish("news", "header", headers={"itemSize": 11})
    await mq.publish("news", "both", headers={"itemSize": 11}, properties={"itemSize": 9})
    await mq.publish("news", "text", properties={"itemSize": "10"})
    await mq.publish("news", "none")
    assert await ids(mq, "orders") == ["property", "header"]


async def test_a_property_whose_name_looks_like_a_path_is_a_property(mq: AnypointCaller) -> None:
    rule = {"propertyName": "$.price", "propertyType": "NUMERIC", "matcherType": "GT", "value": 5}
    assert (await mq.rule("news", "orders", rule)).status == 201
    await mq.publish("news", "property", properties={"$.price": 10})
    await mq.publish("news", "low", body='{"price": 10}', properties={"$.price": 1})
    assert await ids(mq, "orders") == ["property"]


async def test_rules_look_at_standard_headers_too(mq: AnypointCaller) -> None:
    rule = {"propertyName": "messageId", "propertyType": "STRING", "matcherType": "PREFIX", "value": "eu-"}
    assert (await mq.rule("news", "orders", rule)).status == 201
    for message_id in ("eu-1", "us-1"):
        await mq.publish("news", message_id, properties={"n": 1})
    [message] = await mq.consume("orders", 10)
    assert message["headers"]["messageId"] == "eu-1"
    assert message["properties"] == {"n": 1}


async def test_a_new_rule_holds_at_once_and_without_it_everything_passes(mq: AnypointCaller) -> None:
    await mq.rule("news", "orders", GOOD)
    await mq.publish("news", "m-1")
    await mq.admin("DELETE", "/bindings/exchanges/news/queues/orders/rules/routing")
    await mq.publish("news", "m-2")
    assert await ids(mq, "orders") == ["m-2"]


async def test_a_bound_queue_with_a_small_limit_does_not_fail_the_others(mq: AnypointCaller) -> None:
    catalog = mq.app.services.catalog
    await catalog.create_queue("default", "small", settings=QueueSettings(max_body_bytes=10), principal="test")
    await mq.queue("large")
    await mq.exchange("all", "small", "large")
    assert (await mq.publish("all", "m-1", "x" * 11)).status == 201
    assert [one["headers"]["messageId"] for one in await mq.consume("large")] == ["m-1"]
    assert await mq.consume("small") == []
    await mq.exchange("narrow", "small")
    assert (await mq.publish("narrow", "m-2", "x" * 11)).status == 413
