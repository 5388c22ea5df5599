"""Routing rules as people type them: `region eq eu`, `price range 10,20`, `priority >= 5`, `urgent exists`."""

import json
from typing import Any

from couriermq.cli.exits import usage
from couriermq.cli.options import read_value
from couriermq.core.model import Attribute, Matcher, RuleType

SIGNS = {"=": "eq", "==": "eq", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
LISTS = {Matcher.ANY_OF, Matcher.NONE_OF, Matcher.RANGE}


def read_rule(text: str) -> dict[str, Any]:
    """The rule as the native dialect takes it; a rule that is written as JSON is passed on as it is."""
    if text.lstrip().startswith("{"):
        return _read_document(text)
    parts = text.split(None, 2)
    if len(parts) < 2:
        raise usage(f"{text!r} is not a rule; write it as 'attribute matcher value', such as 'region eq eu'")
    attribute, matcher = parts[0], _read_matcher(parts[1])
    return _rule(attribute, matcher, parts[2] if len(parts) == 3 else None)


def _rule(attribute: str, matcher: Matcher, text: str | None) -> dict[str, Any]:
    rule = {"attribute": attribute, "type": str(RuleType.STRING), "matcher": str(matcher)}
    if matcher is Matcher.EXISTS:
        return rule | {"value": True if text is None else read_value(text)}
    if text is None:
        raise usage(f"the matcher {matcher} needs a value, such as '{attribute} {matcher} 5'")
    texts = [part.strip() for part in text.split(",")] if matcher in LISTS else [text]
    values = [read_value(part) for part in texts]
    if any(isinstance(value, str | bool) for value in values):
        values = [value if isinstance(value, str) else part for value, part in zip(values, texts, strict=True)]
    else:
        rule["type"] = str(RuleType.NUMERIC)
    return rule | {"value": values if matcher in LISTS else values[0]}


def _read_matcher(word: str) -> Matcher:
    try:
        return Matcher(SIGNS.get(word, word).replace("-", "_"))
    except ValueError:
        known = ", ".join(Matcher)
        raise usage(f"{word!r} is not a matcher; choose from {known}") from None


def _read_document(text: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise usage(f"the rule {text!r} is not JSON: {error}") from None
    return document


def show_rule(rule: dict[str, Any]) -> str:
    """The rule in the form that `read_rule` takes."""
    value = rule["value"]
    if rule["matcher"] == Matcher.EXISTS:
        return f"{rule['attribute']} exists" + ("" if value else " false")
    values = value if isinstance(value, list) else [value]
    return f"{rule['attribute']} {rule['matcher']} {','.join(_show_value(rule['type'], v) for v in values)}"


def _show_value(kind: str, value: Attribute) -> str:
    if kind == RuleType.STRING and not isinstance(read_value(str(value)), str):
        return json.dumps(value)  # quoted: it is a string that looks like a number
    return f"{value:g}" if isinstance(value, float) else str(value)
