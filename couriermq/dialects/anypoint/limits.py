"""What Anypoint MQ allows: its numbers, and the checks that use them, in its own words."""

import re
import string
from collections.abc import Sequence
from typing import Any

from couriermq.core.errors import BatchTooLarge, Invalid
from couriermq.core.model import DAY, HOUR, MINUTE, SECOND, Binding, Kind, Matcher, Queue, Rule, RuleType

PUBLISH_COUNT = 10
SETTLE_COUNT = 1_000  # the documents name no limit; this is Courier's own
RECEIVE_COUNT = 10
GROUP_IN_FLIGHT = 10
POLLING_MS = 20 * SECOND
POLLING_DEFAULT_MS = 10 * SECOND
LOCK_MS = DAY
QUEUE_LOCK_MS = 12 * HOUR
PATCH_LOCK_MS = 12 * HOUR
DELAY_MS = 15 * MINUTE
TTL_MS = 14 * DAY
TTL_MIN_MS = SECOND
DELIVERIES = 1_000
DELIVERIES_DEFAULT = 10
MESSAGE_ID_CHARS = 256
DESTINATION_CHARS = 127
CONDITIONAL_BYTES = 1024 * 1024
REQUEST_BYTES = 32 * 1024 * 1024
"""A request that publishes: 10 MB of payload, with room for its escapes and for a batch."""
SMALL_BYTES = 1024 * 1024
"""Every other request of a caller who has a credential."""
TOKEN_BYTES = 8 * 1024
"""A request for a token, which anybody may send."""
EXPIRES_IN_SECONDS = 10 * 365 * 24 * 3_600
BOUND_COUNT = 450
BOUND_WITH_RULES_COUNT = 10
RULE_NAME_BYTES = 180
RULE_VALUE_BYTES = 45 * 1024
LIST_COUNT = 20
SHOWN_CHARS = 40
"""Of a number that is out of range, in the answer that says so."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,126}", re.ASCII)
LENIENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}", re.ASCII)
GROUP = re.compile(f"[A-Za-z0-9{re.escape(string.punctuation)}]{{1,128}}", re.ASCII)
RULE_TEXT = re.compile(r"[A-Za-z0-9()@!&|#$%\s\-_:;,.']+", re.ASCII)

QUEUE_RANGES = {
    "defaultTtl": (TTL_MIN_MS, TTL_MS),
    "defaultLockTtl": (0, QUEUE_LOCK_MS),
    "defaultDeliveryDelay": (0, DELAY_MS),
    "maxDeliveries": (1, DELIVERIES),
}


def check_range(name: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        shown = str(value)
        shown = shown if len(shown) <= SHOWN_CHARS else f"{shown[:SHOWN_CHARS]}…"
        raise Invalid(f"{name} is {shown}; it must be from {low} to {high}")
    return value


def check_count(count: int, limit: int) -> None:
    if not 1 <= count <= limit:
        raise BatchTooLarge(count, limit)


def check_name(name: str, *, strict: bool) -> None:
    if not (NAME if strict else LENIENT_NAME).fullmatch(name):
        raise Invalid("a destination id has 1 to 127 letters, digits, hyphens and periods")


def check_message_id(message_id: str) -> str:
    if not 1 <= len(message_id) <= MESSAGE_ID_CHARS:
        raise Invalid(f"messageId has 1 to {MESSAGE_ID_CHARS} characters")
    return message_id


def check_group(group: str) -> str:
    if not GROUP.fullmatch(group):
        raise Invalid("messageGroupId has 1 to 128 letters, digits and punctuation characters")
    return group


def check_delay(delay_ms: int, queue: Queue | None) -> int:
    """A FIFO queue delays all its messages alike, or order would be lost."""
    if delay_ms and queue is not None and queue.kind is Kind.FIFO:
        raise Invalid("deliveryDelay cannot be set on a message of a FIFO queue; set the queue's defaultDeliveryDelay")
    return check_range("deliveryDelay", delay_ms, 0, DELAY_MS)


def check_bindable(queue: Queue) -> None:
    if queue.kind is Kind.FIFO:
        raise Invalid("a FIFO queue cannot be bound to an exchange")


def check_bindings(bindings: Sequence[Binding]) -> None:
    """How many queues an exchange may serve, given all its bindings as they are going to be."""
    routed = any(binding.rules for binding in bindings)
    limit = BOUND_WITH_RULES_COUNT if routed else BOUND_COUNT
    if len(bindings) > limit:
        why = "as soon as one binding has a routing rule" if routed else "at most"
        raise Invalid(f"an exchange can be bound to {limit} queues {why}")


def check_rule(rule: Rule) -> None:
    """What Anypoint asks of a rule beyond what the rule needs to make sense."""
    if not 1 <= len(rule.attribute.encode()) <= RULE_NAME_BYTES:
        raise Invalid(f"propertyName has 1 to {RULE_NAME_BYTES} bytes")
    if rule.type is RuleType.STRING and rule.matcher is not Matcher.EXISTS:
        values: list[Any] = rule.value if isinstance(rule.value, list) else [rule.value]
        for value in values:
            _check_rule_text(value)
        if sum(len(str(value).encode()) for value in values) > RULE_VALUE_BYTES:
            raise Invalid("value has at most 45 KB")


def _check_rule_text(value: object) -> None:
    if isinstance(value, str) and value and not RULE_TEXT.fullmatch(value):
        raise Invalid("value can only contain letters, digits, whitespace and ( ) @ ! & | # $ % - _ : ; , . '")
