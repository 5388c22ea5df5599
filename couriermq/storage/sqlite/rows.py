"""Between SQLite's rows and those of the core."""

from collections.abc import Iterable
from typing import Any

from couriermq.core.lifecycle.rows import Pack, Single

Row = tuple[Any, ...]


def to_pack(row: Row) -> Pack:
    pack = Pack(*row)
    gone: bytes | None = row[13]
    pack.gone = int.from_bytes(gone, "little") if gone else 0
    return pack


def to_packs(rows: Iterable[Row]) -> list[Pack]:
    return [to_pack(row) for row in rows]


def to_single(row: Row) -> Single:
    return Single(*row)


def pack_values(pack: Pack) -> Row:
    return (
        pack.last, pack.queue, pack.state, pack.due_at, pack.attempts, pack.lease_no, pack.entered_at, pack.count,
        pack.remaining, pack.bytes, pack.start, pack.position, pack.turn, gone_of(pack),
    )  # fmt: skip


def gone_of(pack: Pack) -> bytes | None:
    gone = pack.gone
    return gone.to_bytes((gone.bit_length() + 7) // 8, "little") if gone else None


def single_values(s: Single) -> Row:
    return (
        s.seq, s.queue, s.state, s.due_at, s.attempts, s.lease_no, s.entered_at, s.discard_at, s.sent_at, s.delay_ms,
        s.size, s.given, s.id, s.content_type, s.attributes, s.group, s.trace, s.origin, s.death, s.start, s.position,
        s.turn, int(s.discard_at is not None),
    )  # fmt: skip
