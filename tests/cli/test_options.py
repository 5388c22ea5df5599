"""Attributes, rules and scopes as people type them."""

import msgspec
import pytest

from couriermq.cli.credentials import read_scopes
from couriermq.cli.exits import Exit, Failure
from couriermq.cli.options import read_attributes, read_pairs
from couriermq.cli.rules import read_rule, show_rule
from couriermq.cli.settings import Wishes, setting_facts
from couriermq.core.model import Attribute, QueueSettings, Rule
from couriermq.core.routing import check_rule, matches


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("n=5", 5),
        ("n=-1.5", -1.5),
        ("n=true", True),
        ("n=false", False),
        ("n=eu", "eu"),
        ('n="5"', "5"),
        ("n=05", "05"),
        ("n=null", "null"),
        ("n=[1]", "[1]"),
        ("n=1e999", "1e999"),
        ("n=", ""),
        ("n=a=b", "a=b"),
        ("n=NaN", "NaN"),
    ],
)
def test_an_attribute_is_a_number_or_a_boolean_where_it_reads_as_one_and_else_a_string(
    pair: str, value: Attribute
) -> None:
    found = read_attributes([pair])["n"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("pair", ["", "n", "=5"])
def test_an_attribute_without_a_name_or_a_value_is_wrong_usage(pair: str) -> None:
    with pytest.raises(Failure) as failure:
        read_attributes([pair])
    assert failure.value.code == Exit.USAGE


def test_the_values_of_other_pairs_are_always_strings() -> None:
    assert read_pairs(["cloudflare=7"], "an alias") == {"cloudflare": "7"}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("region eq eu", ("region", "string", "eq", "eu")),
        ("region = eu west", ("region", "string", "eq", "eu west")),
        ("price range 10,20", ("price", "numeric", "range", [10, 20])),
        ("price >= 5", ("price", "numeric", "ge", 5)),
        ("region any-of eu, us", ("region", "string", "any_of", ["eu", "us"])),
        ("zip any_of 1,eu", ("zip", "string", "any_of", ["1", "eu"])),
        ('zip eq "7"', ("zip", "string", "eq", "7")),
        ("urgent exists", ("urgent", "string", "exists", True)),
        ("urgent exists false", ("urgent", "string", "exists", False)),
        ('{"attribute": "a", "type": "string", "matcher": "eq", "value": "x,y"}', ("a", "string", "eq", "x,y")),
    ],
)
def test_a_rule_is_typed_as_attribute_matcher_value(text: str, rule: tuple[object, ...]) -> None:
    document = read_rule(text)
    assert tuple(document[key] for key in ("attribute", "type", "matcher", "value")) == rule
    check_rule(msgspec.convert(document, Rule))


@pytest.mark.parametrize(
    "text",
    ["region eq eu", "price range 10,20", 'zip eq "7"', "urgent exists false", "region any_of eu,us", "p ge 1.5"],
)
def test_a_rule_that_was_printed_can_be_typed_in_again(text: str) -> None:
    assert read_rule(show_rule(read_rule(text))) == read_rule(text)


@pytest.mark.parametrize("text", ["", "region", "region near eu", "price ge", "{not json"])
def test_a_rule_that_makes_no_sense_is_wrong_usage(text: str) -> None:
    with pytest.raises(Failure) as failure:
        read_rule(text)
    assert failure.value.code == Exit.USAGE


def test_a_typed_rule_and_a_typed_attribute_meet() -> None:
    rule = msgspec.convert(read_rule("priority >= 5"), Rule)
    assert matches([rule], read_attributes(["priority=7"]))
    assert not matches([rule], read_attributes(['priority="7"']))


def test_scopes_gather_the_queues_of_each_action() -> None:
    assert read_scopes(["send:a", "send:b", "receive"]) == [
        {"action": "send", "queues": ["a", "b"]},
        {"action": "receive", "queues": ["*"]},
    ]


def test_a_scope_on_all_queues_needs_no_others() -> None:
    assert read_scopes(["send:a", "send"]) == [{"action": "send", "queues": ["*"]}]


def test_an_unknown_action_is_wrong_usage() -> None:
    with pytest.raises(Failure, match="choose from send, receive"):
        read_scopes(["fly"])


def test_only_the_settings_that_were_named_are_sent() -> None:
    assert Wishes().document() == {}
    assert Wishes(lease=0, archive_bodies=False).document() == {"lease_ms": 0, "archive_bodies": False}
    assert Wishes(max_attempts="unlimited").document() == {"max_attempts": None}
    assert Wishes(max_leased="unlimited").document() == {"max_leased": None}
    assert Wishes(max_leased=7).document() == {"max_leased": 7}
    assert Wishes(dead_letter_queue="unlimited").document() == {"dead_letter_queue": "unlimited"}
    assert Wishes(setting=["keep=false", "note=x"]).document() == {"keep": False, "note": "x"}


def test_settings_of_a_newer_server_are_shown_too() -> None:
    settings = msgspec.to_builtins(QueueSettings()) | {"shiny_new": True}
    facts = dict(setting_facts(settings))
    assert (facts["lease"], facts["max attempts"], facts["shiny new"]) == ("30s", "unlimited", "true")


def test_settings_that_an_older_server_does_not_know_are_left_out() -> None:
    settings = msgspec.to_builtins(QueueSettings())
    del settings["max_leased"]
    assert "max leased" not in dict(setting_facts(settings))
