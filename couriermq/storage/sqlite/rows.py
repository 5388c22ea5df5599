"""Between SQLite's rows and those of the core. The last column of a row is the checksum of the others."""

from typing import Any

from couriermq.core.lifecycle.rows import Pack, Single
from couriermq.storage.contents import Damaged
from couriermq.storage.sqlite.checksums import checksum

Row = tuple[Any, ...]


def to_pack(row: Row) -> Pack:
    if checksum(row[:-1]) != row[-1]:
        raise Damaged(table="pack", key=row[0])
    pack = Pack(*row[:-1])
    gone: bytes | None = row[13]
    pack.gone = int.from_bytes(gone, "little") if gone else 0
    return pack


def to_single(row: Row) -> Single:
    if checksum(row[:-1]) != row[-1]:
        raise Damaged(table="message", key=row[0])
    return Single(*row[:-1])


def pack_values(pack: Pack) -> Row:
    """All columns, the checksum last."""
    values = (
        pack.last, pack.queue, pack.state, pack.due_at, pack.attempts, pack.lease_no, pack.entered_at, pack.count,
        pack.remaining, pack.bytes, pack.start, pack.position, pack.turn, gone_of(pack),
    )  # fmt: skip
    return (*values, checksum(values))


def gone_of(pack: Pack) -> bytes | None:
    gone = pack.gone
    return gone.to_bytes((gone.bit_length() + 7) // 8, "little") if gone else None


def single_values(s: Single) -> Row:
    """All columns, the checksum last, but for `own`."""
    values = (
        s.seq, s.queue, s.state, s.due_at, s.attempts, s.lease_no, s.entered_at, s.discard_at, s.sent_at, s.delay_ms,
        s.size, s.given, s.id, s.content_type, s.attributes, s.group, s.trace, s.origin, s.death, s.start, s.position,
        s.turn,
    )  # fmt: skip
    return (*values, checksum(values))
