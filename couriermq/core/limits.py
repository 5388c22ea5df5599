"""What Courier itself allows; a dialect may only be stricter. Numbers first, then the checks that use them."""

import math
import re
from collections.abc import Mapping, Sequence

from couriermq.core.errors import BatchTooLarge, BodyTooLarge, CourierError, Invalid
from couriermq.core.model import DAY, MINUTE, SECOND, Draft, Extend, Queue, QueueSettings, Release, Settlement

BATCH_COUNT = 1_000
RECEIVE_COUNT = 1_000
BROWSE_COUNT = 1_000
WAIT_MS = MINUTE
LEASE_MS = DAY
DELAY_MS = 366 * DAY
RETENTION_MS = 3_660 * DAY
BODY_BYTES = 64 * 1024 * 1024
RESPONSE_BYTES = 8 * 1024 * 1024
"""Bodies and attributes in one response, unless a single message is larger."""
COMMIT_BYTES = 16 * 1024 * 1024
"""Bodies and attributes that the store writes, or gives out, at one time, unless a single order is larger."""
COPY_COUNT = 2_000
"""Copies for bindings and listeners that one commit stores, unless a single message has more."""
COPY_BYTES = 256 * 1024 * 1024
"""Bodies and attributes of one message and all of its copies; a message beyond that is refused."""
LISTENER_COUNT = 10_000
"""Listeners of one queue."""
ATTEMPTS = 100_000
LEASED_COUNT = 1_000_000
"""The highest limit of messages that are leased at the same time."""
ID_CHARS = 256
GROUP_CHARS = 128
ATTRIBUTE_COUNT = 1_000
ATTRIBUTE_BYTES = 256 * 1024
RULE_BODY_BYTES = 1024 * 1024
"""The largest body that rules look into."""
CONTENT_TYPE_CHARS = 256
CLAIM_COUNT = 1_000_000
STAGE_COUNT = 10_000
"""Messages in one part of a stage."""
PUBLISHED_STAGES = 10_000
NETWORK_COUNT = 100
CREDENTIAL_BYTES = 256 * 1024
"""One credential with its scopes and annotations."""
ALIAS_COUNT = 16
"""Aliases of one queue."""

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,125}[A-Za-z0-9._-])?", re.ASCII)
TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", re.ASCII)

SETTING_RANGES: dict[str, tuple[int, int]] = {
    "delay_ms": (0, DELAY_MS),
    "lease_ms": (0, LEASE_MS),
    "retention_ms": (SECOND, RETENTION_MS),
    "max_attempts": (1, ATTEMPTS),
    "max_leased": (1, LEASED_COUNT),
    "retry_delay_ms": (0, DELAY_MS),
    "max_body_bytes": (1, BODY_BYTES),
}


class Room:
    """The bytes that are left in a response. The first item always fits, every further one only within the limit."""

    def __init__(self, limit: int = RESPONSE_BYTES) -> None:
        self._left = limit
        self._is_empty = True

    def has(self, size: int) -> bool:
        """Whether items of this size together would fit."""
        return size <= self._left

    def takes(self, size: int) -> bool:
        """Whether an item fits; if so, its bytes are used. After the first refusal nothing fits any more."""
        if size > self._left and not self._is_empty:
            self._left = -1
            return False
        self._is_empty = False
        self._left -= size
        return True


def weight_of(body: bytes, attributes: Mapping[str, object]) -> int:
    """What a message counts for in a byte limit: its body and its attributes."""
    if not attributes:
        return len(body)
    return len(body) + sum(
        len(name) + (len(value) if isinstance(value, str) else 8) for name, value in attributes.items()
    )


def weight_of_drafts(drafts: Sequence[Draft]) -> int:
    """What drafts count for together."""
    return sum([weight_of(draft.body, draft.attributes) if draft.attributes else len(draft.body) for draft in drafts])


def has_many_copies(drafts: Sequence[Draft], copies: int) -> bool:
    """Whether this number of copies of each draft is too much for one commit."""
    return count_with_copies(drafts, copies) < len(drafts)


def count_with_copies(drafts: Sequence[Draft], copies: int) -> int:
    """How many of the first drafts fit into one commit with this number of copies of each; at least one."""
    if not copies:
        return len(drafts)
    room, most = Room(COMMIT_BYTES), max(COPY_COUNT // copies, 1)
    for count, draft in enumerate(drafts[:most]):
        if not room.takes(copies * weight_of(draft.body, draft.attributes)):
            return count
    return min(len(drafts), most)


def check_copies(size: int) -> None:
    """Refuse a message that is this large with all of its copies."""
    if size > COPY_BYTES:
        raise Invalid(
            f"the message and its copies are {size} bytes, and at most {COPY_BYTES} are stored at once;"
            " send a smaller message, or have fewer bindings or listeners",
            field="body",
        )


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise Invalid(
            "a name has 1 to 127 letters, digits, dots, underscores, hyphens and slashes and starts with a letter"
            " or digit",
            field="name",
        )


def check_tenant(tenant: str) -> None:
    if not TENANT.fullmatch(tenant):
        raise Invalid(
            "a tenant id has 1 to 128 letters, digits, dots, underscores and hyphens and starts with a letter or digit",
            field="tenant",
        )


def check_alias(alias: str) -> None:
    if not TENANT.fullmatch(alias):
        raise Invalid(
            "an alias has 1 to 128 letters, digits, dots, underscores and hyphens and starts with a letter or digit",
            field="aliases",
        )


def check_label(field: str, value: str) -> None:
    """The name of a job, a stage or a series."""
    if not LABEL.fullmatch(value):
        raise Invalid(
            f"a {field} has 1 to 128 letters, digits, dots, underscores, colons and hyphens and starts with a letter"
            " or digit",
            field=field,
        )


def check_count(count: int, limit: int) -> None:
    """Raise BatchTooLarge where a batch is empty or has too many items."""
    if not 1 <= count <= limit:
        raise BatchTooLarge(count, limit)


def check_range(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise Invalid(f"{field} is {value}; choose from {low} to {high}", field=field)


def check_settings(settings: QueueSettings) -> None:
    for field, (low, high) in SETTING_RANGES.items():
        value = getattr(settings, field)
        if value is not None:
            check_range(field, value, low, high)


def check_draft(draft: Draft, queue: Queue) -> CourierError | None:
    """What is wrong with a draft for this queue, if anything; called for every message, so the good path is short."""
    if len(draft.body) > queue.settings.max_body_bytes:
        return BodyTooLarge(len(draft.body), queue.settings.max_body_bytes)
    if draft.id is not None and not 1 <= len(draft.id) <= ID_CHARS:
        return Invalid(f"an id has 1 to {ID_CHARS} characters", field="id")
    if draft.delay_ms is not None and not 0 <= draft.delay_ms <= DELAY_MS:
        return Invalid(f"delay_ms is {draft.delay_ms}; choose from 0 to {DELAY_MS}", field="delay_ms")
    if draft.retention_ms is not None and not 1 <= draft.retention_ms <= RETENTION_MS:
        return Invalid(f"retention_ms is {draft.retention_ms}; choose from 1 to {RETENTION_MS}", field="retention_ms")
    if draft.group is not None and len(draft.group) > GROUP_CHARS:
        return Invalid(f"a group has at most {GROUP_CHARS} characters", field="group")
    if draft.dedup_id is not None and not 1 <= len(draft.dedup_id) <= ID_CHARS:
        return Invalid(f"a dedup_id has 1 to {ID_CHARS} characters", field="dedup_id")
    if len(draft.content_type) > CONTENT_TYPE_CHARS:
        return Invalid(f"a content_type has at most {CONTENT_TYPE_CHARS} characters", field="content_type")
    if draft.attributes:
        return _check_attributes(draft)
    return None


def takers(draft: Draft, queues: Sequence[Queue]) -> list[Queue] | CourierError:
    """Those of the queues that take a draft; a refusal when a message is wrong for all of them.

    A body that is too large for one queue does not keep the message from the others.
    """
    refusals = [check_draft(draft, queue) for queue in queues]
    if any(refusals) and (all(refusals) or not all(isinstance(one, BodyTooLarge) for one in refusals if one)):
        return next(refusal for refusal in refusals if refusal is not None)
    return [queue for queue, refusal in zip(queues, refusals, strict=True) if refusal is None]


def _check_attributes(draft: Draft) -> CourierError | None:
    if len(draft.attributes) > ATTRIBUTE_COUNT:
        return Invalid(f"a message has at most {ATTRIBUTE_COUNT} attributes", field="attributes")
    total = 0
    for name, value in draft.attributes.items():
        if not isinstance(value, str | int | float):  # bool is an int
            return Invalid(f"attribute {name!r} is not a string, a number or a boolean", field="attributes")
        if isinstance(value, float) and not math.isfinite(value):
            return Invalid(f"attribute {name!r} is not a finite number", field="attributes")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return Invalid(f"attribute {name!r} does not fit in 64 bits", field="attributes")
        total += len(name) + (len(value) if isinstance(value, str) else 8)
    if total > ATTRIBUTE_BYTES:
        return Invalid(f"the attributes are {total} bytes; at most {ATTRIBUTE_BYTES} are allowed", field="attributes")
    return None


def check_settlement(settlement: Settlement) -> CourierError | None:
    """The refusal of a settlement whose duration is out of range."""
    try:
        if type(settlement) is Extend:
            check_range("lease_ms", settlement.lease_ms, 0, LEASE_MS)
        elif type(settlement) is Release and settlement.delay_ms is not None:
            check_range("delay_ms", settlement.delay_ms, 0, DELAY_MS)
    except Invalid as error:
        return error
    return None
