"""Queues, exchanges, bindings and rules as the admin API writes them.

A queue's settings translate through one table, read in both directions; what Courier does not act on is kept as an
annotation, so that a client finds what it wrote.
"""

from typing import Any

import msgspec

from couriermq.catalog import Catalog
from couriermq.core.errors import Invalid
from couriermq.core.model import DAY, MINUTE, Exchange, Json, Kind, Matcher, Queue, QueueSettings, Rule, RuleType
from couriermq.dialects.anypoint import fallback, limits
from couriermq.dialects.anypoint.wire import whole_or_none

ENCRYPTED = "anypoint.encrypted"

NEW_QUEUE = QueueSettings(lease_ms=2 * MINUTE, retention_ms=7 * DAY)
"""What a queue created here starts from."""

QUEUE_FIELDS = {
    "defaultTtl": "retention_ms",
    "defaultLockTtl": "lease_ms",
    "defaultDeliveryDelay": "delay_ms",
    "maxDeliveries": "max_attempts",
}
ZERO_IS_NOTHING = frozenset({"defaultTtl", "defaultLockTtl"})
DEAD_LETTERS = "deadLetterQueueId"


# -- queues ---------------------------------------------------------------------------------------------------


def read_settings(body: dict[str, Any], *, strict: bool) -> dict[str, int]:
    """The settings that the body gives, in our words; null stands for a setting that is not given.

    So does 0 in the lenient mode where 0 makes no sense: MuleSoft's Terraform provider sends it for every number that
    a configuration leaves out.
    """
    given = {name: whole_or_none(name, body.get(name)) for name in QUEUE_FIELDS}
    return {
        QUEUE_FIELDS[name]: limits.check_range(name, value, *limits.QUEUE_RANGES[name])
        for name, value in given.items()
        if value is not None and (strict or value or name not in ZERO_IS_NOTHING)
    }


def read_flag(body: dict[str, Any], name: str) -> bool | None:
    value = body.get(name)
    match value.lower() if isinstance(value, str) else value:
        case None:
            return None
        case True | "true":
            return True
        case False | "false":
            return False
    raise Invalid(f"{name} must be true or false")


def read_dead_letter_queue(body: dict[str, Any]) -> str | None:
    """The name of the dead letter queue that the body gives."""
    name = body.get(DEAD_LETTERS)
    if name is None or name == "":
        return None
    if not isinstance(name, str):
        raise Invalid(f"{DEAD_LETTERS} must be the id of a queue")
    return name


def write_queue(queue: Queue, catalog: Catalog) -> dict[str, Json]:
    fields: dict[str, Json] = {
        "type": "queue",
        "queueId": queue.name,
        "fifo": queue.kind is Kind.FIFO,
        "encrypted": bool(queue.annotations.get(ENCRYPTED, False)),
    }
    for theirs, ours in QUEUE_FIELDS.items():
        if (value := getattr(queue.settings, ours)) is not None:
            fields[theirs] = value
    if target := catalog.queue_of_id(queue.settings.dead_letter_queue or ""):
        fields[DEAD_LETTERS] = target.name
    if sources := catalog.dead_letter_sources(queue):
        fields["deadLetterSources"] = [source.name for source in sources]
    return fields | fallback.write(queue)


# -- exchanges, bindings, rules -------------------------------------------------------------------------------


def write_exchange(exchange: Exchange) -> dict[str, Json]:
    return {
        "type": "exchange",
        "exchangeId": exchange.name,
        "encrypted": bool(exchange.annotations.get(ENCRYPTED, False)),
    }


def write_binding(exchange: Exchange, queue: Queue, rules: tuple[Rule, ...] | None = None) -> dict[str, Json]:
    """`rules` of None leaves them out, as a minimal listing does."""
    fields: dict[str, Json] = {
        "queueId": queue.name,
        "exchangeId": exchange.name,
        "fifo": queue.kind is Kind.FIFO,
    }
    if rules is not None:
        fields["routingRules"] = [write_rule(rule) for rule in rules]
    return fields


class WireRule(msgspec.Struct):
    propertyName: str  # noqa: N815
    propertyType: str  # noqa: N815
    matcherType: str  # noqa: N815
    value: Any


class WireRules(msgspec.Struct):
    routingRules: list[WireRule]  # noqa: N815


RULES: msgspec.json.Decoder[WireRules] = msgspec.json.Decoder(WireRules)


def read_rules(wire: WireRules) -> tuple[Rule, ...]:
    if len(wire.routingRules) > 1:
        raise Invalid("a binding has at most one routing rule")
    return tuple(_rule(rule) for rule in wire.routingRules)


def _rule(wire: WireRule) -> Rule:
    rule = Rule(
        attribute=wire.propertyName,
        type=_one_of(RuleType, "propertyType", wire.propertyType),
        matcher=_one_of(Matcher, "matcherType", wire.matcherType),
        value=wire.value,
    )
    limits.check_rule(rule)
    return rule


def _one_of(kind: Any, name: str, text: str) -> Any:
    try:
        return kind(text.lower())
    except ValueError:
        raise Invalid(f"{name} must be one of {', '.join(member.upper() for member in kind)}") from None


def write_rule(rule: Rule) -> dict[str, Json]:
    return {
        "propertyName": rule.attribute,
        "propertyType": rule.type.upper(),
        "matcherType": rule.matcher.upper(),
        "value": _value(rule.value),
    }


def _value(value: Any) -> Json:
    """Numbers come back from the store as floats; 1009 goes out as it came in."""
    if isinstance(value, list):
        return [_value(one) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
