"""Which messages a binding lets through."""

import re
from collections.abc import Sequence

from couriermq.core.errors import Invalid
from couriermq.core.limits import RULE_BODY_BYTES
from couriermq.core.model import Attribute, Attributes, Json, Matcher, Rule, RuleType
from couriermq.core.parsing import UNREADABLE, whole_number
from couriermq.core.surrogates import document_of

VALUES = 150
_STEP = re.compile(r"[^.\[\]]+")
NUMBER = 1e9

STRING_MATCHERS = {Matcher.EQ, Matcher.PREFIX, Matcher.ANY_OF, Matcher.NONE_OF, Matcher.EXISTS}
NUMERIC_MATCHERS = {
    Matcher.EQ, Matcher.LT, Matcher.LE, Matcher.GT, Matcher.GE, Matcher.RANGE, Matcher.NONE_OF, Matcher.EXISTS,
}  # fmt: skip


class Document:
    """The JSON of a body. It is parsed once, when the first rule looks into it; a large body counts as no JSON."""

    __slots__ = ("_body", "_value")

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._value: Json = None

    def value(self) -> Json:
        if self._body is not None:
            self._value, self._body = _parsed(self._body), None
        return self._value


def _parsed(body: bytes) -> Json:
    try:
        return document_of(body) if len(body) <= RULE_BODY_BYTES else None
    except UNREADABLE:
        return None


_NOTHING = Document(b"")


def matches(rules: Sequence[Rule], attributes: Attributes, document: Document = _NOTHING) -> bool:
    """Whether all rules hold; no rule holds for everything.

    A name such as `$.order.total` that no attribute has looks into the document.
    """
    return not rules or all(_holds(rule, _value(rule.attribute, attributes, document)) for rule in rules)


def _value(name: str, attributes: Attributes, document: Document) -> Attribute | None:
    if name in attributes or not name.startswith("$."):
        return attributes.get(name)
    found = document.value()
    for step in _STEP.findall(name[2:]):
        if isinstance(found, list) and (index := whole_number(step)) is not None and index < len(found):
            found = found[index]
        elif isinstance(found, dict):
            found = found.get(step)
        else:
            return None
    return found if isinstance(found, str | int | float) else None


def _holds(rule: Rule, value: Attribute | None) -> bool:
    if rule.matcher is Matcher.EXISTS:
        return (value is not None) is rule.value
    if rule.type is RuleType.STRING:
        return isinstance(value, str) and _string_holds(rule, value)
    return isinstance(value, int | float) and not isinstance(value, bool) and _number_holds(rule, value)


def _string_holds(rule: Rule, value: str) -> bool:
    wanted = rule.value
    match rule.matcher:
        case Matcher.EQ:
            return value == wanted
        case Matcher.PREFIX:
            return isinstance(wanted, str) and value.startswith(wanted)
        case Matcher.ANY_OF:
            return isinstance(wanted, list) and value in wanted
        case Matcher.NONE_OF:
            return isinstance(wanted, list) and value not in wanted
    return False


def _number_holds(rule: Rule, value: float) -> bool:
    wanted = rule.value
    match rule.matcher:
        case Matcher.EQ:
            return value == wanted
        case Matcher.NONE_OF:
            return isinstance(wanted, list) and value not in wanted
        case Matcher.RANGE:
            return isinstance(wanted, list) and _number(wanted[0]) <= value <= _number(wanted[1])
        case Matcher.LT:
            return value < _number(wanted)
        case Matcher.LE:
            return value <= _number(wanted)
        case Matcher.GT:
            return value > _number(wanted)
        case Matcher.GE:
            return value >= _number(wanted)
    return False


def _number(value: object) -> float:
    assert isinstance(value, int | float), "check_rule has let no other type through"
    return value


def check_rule(rule: Rule) -> None:
    """Raise Invalid, with the sentence that helps, where a rule could never mean anything."""
    if not rule.attribute:
        raise Invalid("a rule names the attribute that it looks at", field="attribute")
    allowed = STRING_MATCHERS if rule.type is RuleType.STRING else NUMERIC_MATCHERS
    if rule.matcher not in allowed:
        raise Invalid(f"a {rule.type} rule cannot use the matcher {rule.matcher}", field="matcher")
    if rule.matcher is Matcher.EXISTS:
        if not isinstance(rule.value, bool):
            raise Invalid("exists takes true or false", field="value")
        return
    if rule.matcher in (Matcher.ANY_OF, Matcher.NONE_OF):
        _check_list(rule)
    elif rule.matcher is Matcher.RANGE:
        _check_bounds(rule)
    else:
        _check_value(rule, rule.value)


def _check_list(rule: Rule) -> None:
    if not isinstance(rule.value, list) or not 1 <= len(rule.value) <= VALUES:
        raise Invalid(f"{rule.matcher} takes a list of 1 to {VALUES} values", field="value")
    for value in rule.value:
        _check_value(rule, value)


def _check_bounds(rule: Rule) -> None:
    if not isinstance(rule.value, list) or len(rule.value) != 2:
        raise Invalid("range takes a list of two numbers, low and high", field="value")
    for value in rule.value:
        _check_value(rule, value)
    low, high = rule.value
    if not _number(low) < _number(high):
        raise Invalid("range takes a low that is less than its high", field="value")


def _check_value(rule: Rule, value: object) -> None:
    if rule.type is RuleType.STRING:
        if not isinstance(value, str) or not value:
            raise Invalid(f"{rule.matcher} takes a string that is not empty", field="value")
    elif not isinstance(value, int | float) or isinstance(value, bool) or not -NUMBER <= value <= NUMBER:
        raise Invalid(f"{rule.matcher} takes a number from -10^9 to 10^9", field="value")
