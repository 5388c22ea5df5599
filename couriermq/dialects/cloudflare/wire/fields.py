"""Settings translate through these tables, read in both directions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from couriermq.core.model import QueueSettings
from couriermq.dialects.cloudflare import limits
from couriermq.dialects.cloudflare.errors import Refused
from couriermq.dialects.cloudflare.wire.reading import in_seconds, pointer, seconds, shown, whole

Reader = Callable[[object, str, int], Any]
Writer = Callable[[Any], object]


class Field(msgspec.Struct, frozen=True):
    """`theirs` on the wire is `ours` in QueueSettings; `read` takes the value, the name to complain of and the code."""

    theirs: str
    ours: str
    read: Reader
    write: Writer


def _seconds(low: int, high: int) -> Reader:
    return lambda value, name, code: seconds(value, name=name, code=code, low=low, high=high)


def _milliseconds(high: int) -> Reader:
    return lambda value, name, code: whole(value, name=name, low=0, high=high, code=code)


def _retries(value: object, name: str, code: int) -> int:
    return whole(value, name=name, low=0, high=limits.RETRIES, code=code) + 1


def _written_retries(max_attempts: int | None) -> int | None:
    return None if max_attempts is None else max_attempts - 1


def _flag(value: object, name: str, code: int) -> bool:
    if not isinstance(value, bool):
        raise Refused(code, f"{name} is {shown(value)}; choose true or false", pointer=pointer(name))
    return value


def _as_it_is(value: object) -> object:
    return value


QUEUE = (
    Field("delivery_delay", "delay_ms", _seconds(0, limits.DELAY_S), in_seconds),
    Field("delivery_paused", "paused", _flag, _as_it_is),
    Field("message_retention_period", "retention_ms", _seconds(*limits.RETENTION_S), in_seconds),
)

CONSUMER = (
    Field("max_retries", "max_attempts", _retries, _written_retries),
    Field("retry_delay", "retry_delay_ms", _seconds(0, limits.DELAY_S), in_seconds),
    Field("visibility_timeout_ms", "lease_ms", _milliseconds(limits.LEASE_MS), _as_it_is),
)


def read_fields(table: Sequence[Field], document: Mapping[str, object], *, code: int) -> dict[str, Any]:
    """What the caller gave, in our words; null is the same as absent."""
    return {
        field.ours: field.read(document[field.theirs], f"settings.{field.theirs}", code)
        for field in table
        if document.get(field.theirs) is not None
    }


def write_fields(table: Sequence[Field], settings: QueueSettings) -> dict[str, object]:
    return {field.theirs: field.write(getattr(settings, field.ours)) for field in table}
