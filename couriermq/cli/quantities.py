"""Durations, sizes and instants as people write and read them."""

import re
from datetime import UTC, datetime

from couriermq.core.model import DAY, HOUR, MINUTE, SECOND

UNITS_MS = {"w": 7 * DAY, "d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": 1}
_PRINTED_UNITS = ("d", "h", "m", "s", "ms")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[wdhms])")

UNITS_BYTES = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9,
    "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def read_duration(text: str) -> int:
    """Milliseconds of `30s`, `5m`, `1h30m`, `250ms`; a bare number is refused, for its unit would be a guess."""
    if text == "0":
        return 0
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration; write it as 30s, 5m, 2h, 4d or 250ms")
    return round(sum(float(number) * UNITS_MS[unit] for number, unit in parts))


def show_duration(ms: int) -> str:
    """The exact duration in the form that `read_duration` takes."""
    parts = _split(ms)
    return "".join(f"{count}{unit}" for count, unit in parts) or "0s"


def show_age(ms: int) -> str:
    """A duration to the precision that a glance needs: its two largest units, and no milliseconds."""
    parts = [(count, unit) for count, unit in _split(max(ms, 0)) if unit != "ms"]
    return "".join(f"{count}{unit}" for count, unit in parts[:2]) or "0s"


def _split(ms: int) -> list[tuple[int, str]]:
    parts = []
    for unit in _PRINTED_UNITS:
        count, ms = divmod(ms, UNITS_MS[unit])
        if count:
            parts.append((count, unit))
    return parts


def read_size(text: str) -> int:
    """Bytes of `128KiB`, `10MB`, `4096`."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or match[2] not in UNITS_BYTES:
        raise ValueError(f"{text!r} is not a size; write it as 4096, 128KiB or 10MiB")
    return round(float(match[1]) * UNITS_BYTES[match[2]])


def show_size(size: int) -> str:
    """Bytes in the largest unit that leaves a number of at least one."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{size} B"


def show_instant(at: int) -> str:
    """An instant in the reader's own time zone, to the second."""
    return _local(at).strftime("%Y-%m-%d %H:%M:%S")


def show_time(at: int) -> str:
    """The time of day of an instant, for lines that come one after another."""
    moment = _local(at)
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"


def _local(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, tz=UTC).astimezone()


def show_count(count: int, noun: str) -> str:
    """`1 message`, `1,200 messages`."""
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    return noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
