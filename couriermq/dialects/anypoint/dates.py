"""The dates of Anypoint: HTTP dates in messages, ISO 8601 in statistics, and both when callers name an instant."""

import re
from datetime import UTC, datetime
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache

from couriermq.core.errors import Invalid

_LOST_PLUS = re.compile(r"(T[0-9:.]+) (\d{2}:?\d{2})$")
_SHORT_OFFSET = re.compile(r"([+-]\d{2})(\d{2})$")


def http_date(at: int) -> str:
    """`Fri, 24 Jun 2016 21:17:57 GMT`."""
    return _http_date(at // 1_000)


@lru_cache(maxsize=4_096)  # the messages of one answer were mostly sent in the same few seconds
def _http_date(second: int) -> str:
    return formatdate(second, usegmt=True)


def point_date(at: int) -> str:
    """`2017-07-26T00:00:00.000+0000`, as history dates its points."""
    return f"{_utc(at):%Y-%m-%dT%H:%M:%S}.{at % 1_000:03d}+0000"


def iso_date(at: int) -> str:
    """`2022-06-08T14:51:34.022Z`, as the accounts service dates what it shows."""
    return f"{_utc(at):%Y-%m-%dT%H:%M:%S}.{at % 1_000:03d}Z"


def usage_date(at: int) -> str:
    """`2018-11-08T00:00Z`, as usage dates its rows."""
    return f"{_utc(at):%Y-%m-%dT%H:%MZ}"


def read_date(name: str, text: str) -> int:
    """Epoch milliseconds of an RFC 1123 date (`GMT` or `UTC`) or an ISO 8601 one."""
    found = _iso(text.strip()) or _rfc(text.strip())
    if found is None:
        raise Invalid(f"{name} must be a date such as 'Wed, 26 Jul 2017 00:00:00 GMT' or '2017-07-26T00:00:00.000Z'")
    return int(found.timestamp() * 1_000)


def month_start(at: int) -> int:
    return _millis(_utc(at).replace(day=1, hour=0, minute=0, second=0, microsecond=0))


def next_month(at: int) -> int:
    """The first instant of the month after the one that holds `at`."""
    first = _utc(at).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    year, month = divmod(first.year * 12 + first.month, 12)
    return _millis(first.replace(year=year, month=month + 1))


def _utc(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1_000, UTC)


def _millis(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000


def _iso(text: str) -> datetime | None:
    # An unescaped plus in a query string arrives as a space.
    text = _SHORT_OFFSET.sub(r"\1:\2", _LOST_PLUS.sub(r"\1+\2", text))
    try:
        return _within_reason(datetime.fromisoformat(text))
    except ValueError:
        return None


def _rfc(text: str) -> datetime | None:
    try:
        return _within_reason(parsedate_to_datetime(text))
    except (ValueError, IndexError, TypeError, OverflowError):
        return None


def _within_reason(moment: datetime) -> datetime | None:
    """In UTC where no zone is given; None for a year that no queue has seen."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment if 1970 < moment.year < 9999 else None
