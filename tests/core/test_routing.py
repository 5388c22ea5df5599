"""Routing rules against a plain restatement: one line of Python for every matcher of every type."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.core import routing
from couriermq.core.errors import Invalid
from couriermq.core.limits import RULE_BODY_BYTES
from couriermq.core.model import Attribute, Matcher, Rule, RuleType
from couriermq.core.routing import NUMBER, VALUES, Document, check_rule, matches
from couriermq.core.surrogates import document_of

ABSENT = None
Meaning = Callable[[Any, Any], bool]


def is_text(value: object) -> bool:
    return type(value) is str


def is_number(value: object) -> bool:
    return type(value) in (int, float)


PLAINLY: dict[tuple[RuleType, Matcher], Meaning] = {
    (RuleType.STRING, Matcher.EQ): lambda has, want: is_text(has) and has == want,
    (RuleType.STRING, Matcher.PREFIX): lambda has, want: is_text(has) and has[: len(want)] == want,
    (RuleType.STRING, Matcher.ANY_OF): lambda has, want: is_text(has) and any(has == each for each in want),
    (RuleType.STRING, Matcher.NONE_OF): lambda has, want: is_text(has) and all(has != each for each in want),
    (RuleType.STRING, Matcher.EXISTS): lambda has, want: (has is not ABSENT) == want,
    (RuleType.NUMERIC, Matcher.EQ): lambda has, want: is_number(has) and has == want,
    (RuleType.NUMERIC, Matcher.LT): lambda has, want: is_number(has) and has < want,
    (RuleType.NUMERIC, Matcher.LE): lambda has, want: is_number(has) and has <= want,
    (RuleType.NUMERIC, Matcher.GT): lambda has, want: is_number(has) and has > want,
    (RuleType.NUMERIC, Matcher.GE): lambda has, want: is_number(has) and has >= want,
    (RuleType.NUMERIC, Matcher.RANGE): lambda has, want: is_number(has) and want[0] <= has <= want[1],
    (RuleType.NUMERIC, Matcher.NONE_OF): lambda has, want: is_number(has) and all(has != each for each in want),
    (RuleType.NUMERIC, Matcher.EXISTS): lambda has, want: (has is not ABSENT) == want,
}
REFUSED = [(kind, matcher) for kind in RuleType for matcher in Matcher if (kind, matcher) not in PLAINLY]

# Few letters and small numbers, so that equality and prefixes happen often.
words = st.text("ab", min_size=1, max_size=3)
numbers = st.one_of(st.integers(-3, 3), st.sampled_from([-1.5, 0.5, 2.0]), st.floats(-NUMBER, NUMBER))
attributes = st.one_of(st.none(), st.booleans(), st.text("ab", max_size=3), st.integers(-3, 3), numbers)


def bounds(draw: Any) -> list[float]:
    low, high = sorted(draw(st.lists(numbers, min_size=2, max_size=2, unique=True)))
    return [low, high]


@st.composite
def rules(draw: Any, attribute: str = "a") -> Rule:
    kind, matcher = draw(st.sampled_from(sorted(PLAINLY)))
    each = words if kind is RuleType.STRING else numbers
    if matcher is Matcher.EXISTS:
        value = draw(st.booleans())
    elif matcher is Matcher.RANGE:
        value = bounds(draw)
    elif matcher in (Matcher.ANY_OF, Matcher.NONE_OF):
        value = draw(st.lists(each, min_size=1, max_size=4))
    else:
        value = draw(each)
    return Rule(attribute=attribute, type=kind, matcher=matcher, value=value)


def attributes_of(value: Attribute | None) -> dict[str, Attribute]:
    return {} if value is None else {"a": value}


@given(rule=rules(), value=attributes)
def test_a_rule_means_what_its_plain_restatement_says(rule: Rule, value: Attribute | None) -> None:
    check_rule(rule)
    assert matches([rule], attributes_of(value)) == PLAINLY[rule.type, rule.matcher](value, rule.value)


@given(chosen=st.lists(rules() | rules("b"), max_size=4), value=attributes, other=attributes)
def test_a_message_passes_when_all_rules_hold(
    chosen: list[Rule], value: Attribute | None, other: Attribute | None
) -> None:
    has = {name: each for name, each in (("a", value), ("b", other)) if each is not None}
    assert matches(chosen, has) == all(matches([rule], has) for rule in chosen)


def test_no_rule_lets_everything_through() -> None:
    assert matches([], {})


# -- into a body ----------------------------------------------------------------------------------------------


def exists(name: str) -> Rule:
    return Rule(attribute=name, type=RuleType.STRING, matcher=Matcher.EXISTS, value=True)


def equals(name: str, value: str) -> Rule:
    return Rule(attribute=name, type=RuleType.STRING, matcher=Matcher.EQ, value=value)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies that rules have had parsed."""
    bodies: list[bytes] = []

    def count(body: bytes) -> Any:
        bodies.append(body)
        return document_of(body)

    monkeypatch.setattr(routing, "document_of", count)
    return bodies


def test_a_rule_looks_into_the_body_where_no_attribute_has_its_name() -> None:
    document = Document(b'{"order": {"kind": "gift"}}')
    assert matches([equals("$.order.kind", "gift")], {}, document)
    assert matches([equals("$.order.kind", "book")], {"$.order.kind": "book"}, document)
    assert not matches([equals("$.order.kind", "gift")], {"$.order.kind": 1}, document)


def test_a_body_is_parsed_once_however_many_rules_look_into_it(parsed: list[bytes]) -> None:
    document = Document(b'{"a": "x", "b": "y"}')
    for chosen in ([equals("$.a", "x"), equals("$.b", "y")], [equals("$.a", "z")], [exists("$.c")]):
        matches(chosen, {}, document)
    assert len(parsed) == 1


def test_a_body_that_is_no_json_is_parsed_once_too(parsed: list[bytes]) -> None:
    document = Document(b"{")
    assert not matches([exists("$.a")], {}, document)
    assert not matches([exists("$.b")], {}, document)
    assert len(parsed) == 1


def test_a_body_is_parsed_only_where_a_rule_needs_it(parsed: list[bytes]) -> None:
    document = Document(b'{"a": "x"}')
    assert matches([], {}, document)
    assert matches([equals("a", "x"), exists("$.b")], {"a": "x", "$.b": 1}, document)
    assert not matches([equals("a", "y"), exists("$.a")], {"a": "x"}, document)
    assert parsed == []


@pytest.mark.parametrize("over", [0, 1])
def test_a_rule_looks_into_no_body_beyond_the_limit(over: int, parsed: list[bytes]) -> None:
    body = b'{"a": "x"}'.ljust(RULE_BODY_BYTES + over)
    assert matches([exists("$.a")], {}, Document(body)) is (over == 0)
    assert len(parsed) == 1 - over


# -- rules that are refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "matcher"), REFUSED)
def test_a_matcher_of_the_other_type_is_refused(kind: RuleType, matcher: Matcher) -> None:
    with pytest.raises(Invalid, match="cannot use") as refusal:
        check_rule(Rule(attribute="a", type=kind, matcher=matcher, value=[1.0, 2.0]))
    assert refusal.value.field == "matcher"


WRONG_VALUES = [
    (RuleType.STRING, Matcher.EQ, ""),
    (RuleType.STRING, Matcher.EQ, 1.0),
    (RuleType.STRING, Matcher.EQ, True),
    (RuleType.STRING, Matcher.PREFIX, ["a"]),
    (RuleType.STRING, Matcher.ANY_OF, "a"),
    (RuleType.STRING, Matcher.ANY_OF, []),
    (RuleType.STRING, Matcher.ANY_OF, ["a"] * (VALUES + 1)),
    (RuleType.STRING, Matcher.NONE_OF, ["a", 1.0]),
    (RuleType.STRING, Matcher.EXISTS, "true"),
    (RuleType.NUMERIC, Matcher.EQ, "1"),
    (RuleType.NUMERIC, Matcher.EQ, True),
    (RuleType.NUMERIC, Matcher.LT, NUMBER * 1.001),
    (RuleType.NUMERIC, Matcher.GT, -NUMBER * 1.001),
    (RuleType.NUMERIC, Matcher.GE, float("nan")),
    (RuleType.NUMERIC, Matcher.LE, float("inf")),
    (RuleType.NUMERIC, Matcher.RANGE, [1.0]),
    (RuleType.NUMERIC, Matcher.RANGE, [1.0, 2.0, 3.0]),
    (RuleType.NUMERIC, Matcher.RANGE, [2.0, 1.0]),
    (RuleType.NUMERIC, Matcher.RANGE, [1.0, 1.0]),
    (RuleType.NUMERIC, Matcher.RANGE, ["a", "b"]),
    (RuleType.NUMERIC, Matcher.RANGE, 1.0),
    (RuleType.NUMERIC, Matcher.NONE_OF, [1.0, "a"]),
    (RuleType.NUMERIC, Matcher.NONE_OF, []),
    (RuleType.NUMERIC, Matcher.EXISTS, 1.0),
]


@pytest.mark.parametrize(("kind", "matcher", "value"), WRONG_VALUES)
def test_a_value_that_could_never_match_is_refused(kind: RuleType, matcher: Matcher, value: Any) -> None:
    with pytest.raises(Invalid) as refusal:
        check_rule(Rule(attribute="a", type=kind, matcher=matcher, value=value))
    assert refusal.value.field == "value"


def test_a_rule_must_name_its_attribute() -> None:
    with pytest.raises(Invalid, match="names the attribute"):
        check_rule(Rule(attribute="", type=RuleType.STRING, matcher=Matcher.EQ, value="a"))


@pytest.mark.parametrize("count", [1, VALUES])
def test_a_list_takes_from_one_to_the_limit_of_values(count: int) -> None:
    check_rule(Rule(attribute="a", type=RuleType.STRING, matcher=Matcher.ANY_OF, value=["x"] * count))
    check_rule(Rule(attribute="a", type=RuleType.NUMERIC, matcher=Matcher.NONE_OF, value=[NUMBER] * count))
