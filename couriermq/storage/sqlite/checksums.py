"""Checksums of rows. SQLite finds a damaged page only where its structure is broken; a wrong value it takes as it is.

Every row has a CRC-32 of its columns in `crc`. It is written with the row, by Python for packs, messages and the
journal and by the SQL function `crc` elsewhere, and compared when the row is read.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import msgspec

from couriermq.storage.contents import Damaged

_encode = msgspec.msgpack.Encoder().encode

COLUMNS = {
    "pack": (
        "last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start, position, turn,"
        " gone"
    ),
    "message": (
        "seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,"
        " content_type, attributes, grp, trace, origin, death, start, position, turn"
    ),
    "record": "kind, tenant, id, slot, document",
    "tally": "queue, ready, delayed, leased, bytes, sent, acked, dead",
    "dedup": "queue, dedup_id, until_at, seq, id",
    "job": "queue, name, epoch, done, opened_at",
    "claim": "queue, job, number, wanted, complete, fate, count, bytes, claimed_at",
    "claim_part": "queue, job, number, first, count, seqs",
    "stage": "target, name, part, chunk, count, staged_at, keys, parcels_crc",
    "publication": "target, series, number, count, published_at",
    "landing": "id, target, name, published_at, principal, keys",
    "meta": "name, value",
}
"""The columns that the checksum of a table's rows is made of, in this order."""


def checksum(values: Iterable[Any]) -> int:
    return crc32(_encode(values))


def register(connection: sqlite3.Connection) -> None:
    """Have SQL know `crc(…)`, of any values, and `crc32(blob)`."""
    connection.create_function("crc", -1, _of_values, deterministic=True)
    connection.create_function("crc32", 1, _of_blob, deterministic=True)


def _of_values(*values: Any) -> int:
    return crc32(_encode(values))


def _of_blob(value: Any) -> int:
    return crc32(value) if type(value) is bytes else -1  # damage can change the type of a value


def sound(what: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row without its last column, which says whether the checksum is right; raises Damaged if it is not."""
    if not row[-1]:
        raise Damaged(what)
    return row[:-1]


def damaged_rows(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    """The tables that have rows whose checksum is wrong, and how many these are."""
    found = []
    for table, columns in COLUMNS.items():
        also = " OR parcels_crc <> crc32(parcels)" if table == "stage" else ""
        query = f"SELECT count(*) FROM {table} WHERE crc <> crc({columns}){also}"  # noqa: S608 - ours
        (count,) = connection.execute(query).fetchone()
        if count:
            found.append((table, count))
    return found
