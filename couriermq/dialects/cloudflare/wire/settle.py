"""Messages that are done with: acks and retries by lease id, purges by ref."""

from collections.abc import Sequence
from typing import Any

import msgspec

from couriermq.core.errors import CourierError, InvalidReceipt, LeaseLost
from couriermq.core.model import Ack, Release, Settled
from couriermq.core.surrogates import blanked
from couriermq.dialects.cloudflare import limits
from couriermq.dialects.cloudflare.errors import Code, Refused
from couriermq.dialects.cloudflare.wire.reading import read, seconds


class AckItem(msgspec.Struct, gc=False):
    lease_id: str


class RetryItem(msgspec.Struct, gc=False):
    lease_id: str
    delay_seconds: Any = None


class AckOrder(msgspec.Struct):
    acks: list[AckItem] | None = None
    retries: list[RetryItem] | None = None


_ack = msgspec.json.Decoder(AckOrder)


def read_ack(body: bytes) -> tuple[list[Ack], list[Release]]:
    """Any number of leases that fits into a body. Clients send whole messages: the rest of an item is not looked at."""
    order = read(_ack, blanked(body), invalid=Code.BODY_INVALID, malformed=Code.JSON_BODY_MALFORMED)
    acks = [Ack(item.lease_id) for item in order.acks or ()]
    retries = [Release(item.lease_id, _retry_delay(index, item)) for index, item in enumerate(order.retries or ())]
    return acks, retries


def _retry_delay(index: int, item: RetryItem) -> int | None:
    if item.delay_seconds is None:
        return None
    name = f"retries[{index}].delay_seconds"
    return seconds(item.delay_seconds, name=name, code=Code.BODY_INVALID, high=limits.DELAY_S)


class RefItem(msgspec.Struct):
    ref: str


class PurgeOrder(msgspec.Struct):
    refs: list[RefItem]


_purge = msgspec.json.Decoder(PurgeOrder)


def read_refs(body: bytes) -> list[str]:
    order = read(_purge, body, invalid=Code.BODY_INVALID, malformed=Code.JSON_BODY_MALFORMED)
    if len(order.refs) > limits.REF_COUNT:
        raise Refused(
            Code.BODY_INVALID,
            f"the call names {len(order.refs)} refs; name at most {limits.REF_COUNT} at a time",
            pointer="/refs",
        )
    return [item.ref for item in order.refs]


class AckResult(msgspec.Struct):
    ack_count: int = msgspec.field(name="ackCount")
    retry_count: int = msgspec.field(name="retryCount")
    warnings: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    """Left out when there are none: older SDKs read a list here, newer ones a map, and both read nothing."""


class PurgeResult(msgspec.Struct):
    warnings: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


NEVER_GIVEN = "the lease id is not one that this queue handed out"
SETTLED_BEFORE = "the lease had ended and the message was settled, returned or dropped before; nothing was changed"
EXHAUSTED = "Message has exhausted maxRetries"
"""The vendor's own words, which clients look for."""


class AckTally:
    """Counts what became of the leases of one call."""

    def __init__(self) -> None:
        self._counts = {Ack: 0, Release: 0}
        self._warnings: dict[str, str] = {}

    def add(self, settlements: Sequence[Ack | Release], outcomes: Sequence[Settled | CourierError]) -> None:
        for settlement, outcome in zip(settlements, outcomes, strict=True):
            warning = _warning(outcome)
            if warning is not None:
                self._warnings[settlement.receipt] = warning
            # A lease that ended counts, with a warning: its caller can do nothing more about it, and clients compare
            # the counts with what they sent.
            if isinstance(outcome, Settled | LeaseLost):
                self._counts[type(settlement)] += 1

    def write(self) -> AckResult:
        return AckResult(self._counts[Ack], self._counts[Release], self._warnings or msgspec.UNSET)


def _warning(outcome: Settled | CourierError) -> str | None:
    if isinstance(outcome, Settled):
        return EXHAUSTED if outcome.dead else None
    if isinstance(outcome, LeaseLost):
        return SETTLED_BEFORE
    return NEVER_GIVEN if isinstance(outcome, InvalidReceipt) else str(outcome)


def write_purge(unknown: Sequence[str], gone: Sequence[str]) -> PurgeResult:
    warnings = dict.fromkeys(unknown, "the ref is not one that this queue handed out")
    warnings.update(dict.fromkeys(gone, "the message was no longer in the queue"))
    return PurgeResult(warnings) if warnings else PurgeResult()
