"""What `tenant_usage` says of one tenant."""

import msgspec

from couriermq.lake.tables import TENANT_USAGE, Lake

COLUMNS = ("day", "requests", "messages", "received", "bytes", "billable_units")


class Used(msgspec.Struct, frozen=True):
    """What a tenant used on a day; the bytes are those sent and received."""

    day: str
    requests: int
    sent: int
    received: int
    traffic_bytes: int
    billable_units: int


def usage_by_day(lake: Lake, tenant: str, *, first: str, last: str) -> list[Used]:
    """The days from the first up to the last on which the tenant used anything, in order."""
    import pyarrow.compute as pc  # noqa: PLC0415

    day = pc.field("day")
    where = (pc.field("tenant") == tenant) & (day >= first) & (day <= last)
    rows = lake.read(TENANT_USAGE, COLUMNS, where=where).to_pylist()
    return sorted((Used(*(row[name] for name in COLUMNS)) for row in rows), key=lambda used: used.day)
