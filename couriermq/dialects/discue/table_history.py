"""The older part of the last day from the lake's tables: its newest events whole, the others counted."""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import msgspec

from couriermq.core.events import Entry, Event
from couriermq.core.lanes import first_of_lane
from couriermq.core.model import MINUTE
from couriermq.lake.tables import EVENTS, Lake, Within, day_of, in_ms

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("offset", "kind", "at", "tenant", "queue_id", "queue", "seq", "message_id", "principal", "detail")
_detail = msgspec.json.Decoder(dict[str, Any])


class Older(msgspec.Struct, frozen=True):
    """What a tenant did before the journal takes over."""

    entries: list[Entry]
    """The newest, in order."""
    counts: list[tuple[int, str, bool, int]]
    """Of the others: minute, kind, whether it was in a listener's own queue, and how many."""


def read_older(
    lake: Lake, tenant: str, kinds: Iterable[str], *, since: int, ends: Mapping[int, int], most: int
) -> Older:
    """From the instant `since` on, up to an offset of each lane."""
    import pyarrow.compute as pc  # noqa: PLC0415

    offset = pc.field("offset")
    lanes = ((offset >= first_of_lane(lane)) & (offset < end) for lane, end in ends.items())
    where = (pc.field("tenant") == tenant) & reduce(or_, lanes) & pc.field("kind").isin(list(kinds))
    rows = lake.read(EVENTS, COLUMNS, where=where, within=Within("at", since), since_day=day_of(since))
    rows = rows.sort_by([("at", "ascending"), ("offset", "ascending")]) if rows.num_rows else rows
    cut = max(0, rows.num_rows - most)
    return Older(_entries(rows.slice(cut)), _counts(rows.slice(0, cut)) if cut else [])


def _entries(rows: "pa.Table") -> list[Entry]:
    instants = in_ms(rows.column("at")).to_pylist()
    return [_entry(at, row) for at, row in zip(instants, rows.drop(["at"]).to_pylist(), strict=True)]


def _entry(at: int, row: dict[str, Any]) -> Entry:
    detail = _detail.decode(row["detail"]) if row["detail"] else None
    event = Event(
        row["kind"],
        at,
        row["tenant"],
        row["queue_id"],
        row["queue"],
        row["seq"],
        row["message_id"],
        principal=row["principal"],
        detail=detail,
    )
    return Entry(row["offset"], event)


def _counts(rows: "pa.Table") -> list[tuple[int, str, bool, int]]:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    at = in_ms(rows.column("at"))
    columns = {
        "minute": pc.multiply(pc.divide(at, MINUTE), MINUTE),
        "kind": rows.column("kind"),
        "is_listeners": pc.fill_null(pc.starts_with(rows.column("queue"), "~"), False),
    }
    counted = pa.table(columns).group_by(list(columns)).aggregate([([], "count_all")])
    return [(row["minute"], row["kind"], row["is_listeners"], row["count_all"]) for row in counted.to_pylist()]
