"""Rows without what was in them: the place in the journal stays, the message does not.

An erased row keeps its offset, kind, instant, queue, seq and sizes, so that offsets have no gap and sums stay true. Its
message id becomes `erased-<seq>`, its body null, and of its detail only what is Courier's own is left.
"""

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from couriermq.core.numbers import ERASED

if TYPE_CHECKING:
    import pyarrow as pa

MARK = ERASED
KEPT = {
    "target", "target_id", "reason", "delay_ms", "queue_count", "refused_count", "verdict", "status", "latency_ms",
    "untried", "late", "delivered",
}  # fmt: skip
"""What Courier itself has written into a detail; everything else may be the sender's."""
HIDDEN = "~"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages: all of a tenant's that bear an id, or that were sent with an attribute; or to one queue only."""

    tenant: str
    message_id: str | None = None
    attribute: tuple[str, Any] | None = None
    queue: str | None = None


class Found(msgspec.Struct):
    """The messages by their seqs, and the ids that their copies on the way to listeners share with them."""

    seqs: set[int] = msgspec.field(default_factory=set)
    ids: set[str] = msgspec.field(default_factory=set)
    hashes: set[str] = msgspec.field(default_factory=set)
    """Of such ids that an earlier run has found, and perhaps blanked where they could be found."""
    copies: set[int] = msgspec.field(default_factory=set)
    """The seqs of these copies."""
    marked: set[int] = msgspec.field(default_factory=set)
    """Those that were erased before, of which something may be left."""

    @property
    def all_seqs(self) -> set[int]:
        return self.seqs | self.copies | self.marked

    def has_id(self, message_id: str) -> bool:
        return message_id in self.ids or (bool(self.hashes) and hash_of(message_id) in self.hashes)


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


LOOKED_AT = ("kind", "tenant", "queue", "seq", "message_id", "detail")


def look_for(wanted: Wanted) -> Found:
    """What is known before anything was looked at."""
    return Found(ids={wanted.message_id} if wanted.message_id is not None and wanted.queue is None else set())


def find(rows: "pa.Table", wanted: Wanted, found: Found) -> None:
    """Add the messages that are sent in these rows, and those of which an earlier erasure left something."""
    import pyarrow.compute as pc  # noqa: PLC0415

    mine = pc.equal(rows.column("tenant"), wanted.tenant)
    rows = rows.filter(pc.and_(mine, pc.is_valid(rows.column("message_id"))))
    erased = rows.filter(pc.starts_with(rows.column("message_id"), MARK))
    found.marked.update(seq for seq in erased.column("seq").to_pylist() if seq is not None)
    if found.hashes:
        ids = rows.filter(_elsewhere(rows)).column("message_id").unique().to_pylist()
        found.ids.update(one for one in ids if found.has_id(one))
    for row in _candidates(rows, wanted).to_pylist():
        if _is_wanted(row, wanted):
            found.ids.add(row["message_id"])
            if row["seq"] is not None:
                found.seqs.add(row["seq"])


def _candidates(rows: "pa.Table", wanted: Wanted) -> "pa.Table":
    import pyarrow.compute as pc  # noqa: PLC0415

    if wanted.message_id is not None:
        return rows.filter(pc.equal(rows.column("message_id"), wanted.message_id))
    assert wanted.attribute is not None
    sent = rows.filter(pc.equal(rows.column("kind"), "sent"))
    return sent.filter(pc.fill_null(pc.match_substring(sent.column("detail"), wanted.attribute[0]), False))


def _is_wanted(row: dict[str, Any], wanted: Wanted) -> bool:
    queue = row["queue"] or ""
    if queue.startswith(HIDDEN) or (wanted.queue is not None and queue != wanted.queue):
        return False
    if wanted.attribute is None:
        return True
    name, value = wanted.attribute
    attributes = msgspec.json.decode(row["detail"]).get("attributes") or {}
    return name in attributes and attributes[name] == value and type(attributes[name]) is type(value)


def blank(rows: "pa.Table", wanted: Wanted, found: Found) -> tuple["pa.Table", list[int]]:
    """The rows without what is erased, and the offsets of the rows that are changed by it; notes copies in `found`."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    mask = _mask(rows, wanted, found)
    count = pc.sum(mask).as_py() or 0
    if not count:
        return rows, []
    hidden = pc.starts_with(pc.fill_null(rows.column("queue"), ""), HIDDEN)
    found.copies.update(pc.drop_null(rows.column("seq").filter(pc.and_(mask, hidden))).to_pylist())
    marks = pa.array([MARK + str(seq or 0) for seq in rows.column("seq").to_pylist()], pa.string())
    changes: dict[str, Callable[[Any], Any]] = {
        "message_id": lambda column: pc.if_else(mask, marks.cast(column.type), column),
        "body": lambda column: pc.if_else(mask, pa.scalar(None, column.type), column),
        "detail": lambda column: pa.chunked_array([_details(column, mask)], column.type),
    }
    for name, change in changes.items():
        if name in rows.column_names:
            index = rows.column_names.index(name)
            rows = rows.set_column(index, rows.schema.field(name), change(rows.column(name)))
    places = rows.column("offset") if "offset" in rows.column_names else rows.column("seq")
    return rows, places.filter(mask).to_pylist()


def _mask(rows: "pa.Table", wanted: Wanted, found: Found) -> "pa.ChunkedArray":
    """Rows that still hold something: of the messages, of their copies, and of the exchange that they came through."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    seq, message_id = rows.column("seq"), rows.column("message_id")
    mask = pc.is_in(seq, value_set=pa.array(sorted(found.all_seqs), pa.int64()))
    same_id = pc.is_in(message_id, value_set=pa.array(sorted(found.ids), pa.string()))
    mask = pc.or_(mask, pc.and_(same_id, _elsewhere(rows)))
    untouched = pc.invert(pc.fill_null(pc.starts_with(message_id, MARK), False))
    return pc.and_(pc.and_(mask, untouched), pc.equal(rows.column("tenant"), wanted.tenant))


def _elsewhere(rows: "pa.Table") -> "pa.ChunkedArray":
    """Rows of copies for listeners, and of the exchange that messages came through."""
    import pyarrow.compute as pc  # noqa: PLC0415

    queue = pc.fill_null(rows.column("queue"), "")
    return pc.or_(pc.starts_with(queue, HIDDEN), pc.is_null(rows.column("seq")))


def _details(column: "pa.ChunkedArray", mask: "pa.ChunkedArray") -> "pa.Array":
    import pyarrow as pa  # noqa: PLC0415

    pairs = zip(column.to_pylist(), mask.to_pylist(), strict=True)
    return pa.array([_scrub(text) if hit else text for text, hit in pairs], column.type)


def _scrub(text: str | None) -> str:
    detail: dict[str, Any] = msgspec.json.decode(text) if text else {}
    kept = {name: value for name, value in detail.items() if name in KEPT}
    return msgspec.json.encode(kept | {"erased": True}).decode()
