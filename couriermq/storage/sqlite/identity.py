"""Which store this is, kept in its database; and the beginning of a new incarnation, in a copy that was restored."""

import logging
import sqlite3
from collections.abc import Callable
from zlib import crc32

import msgspec

from couriermq.clock import fresh_key
from couriermq.core.chronicle import packed
from couriermq.core.incarnations import Counters, Identity, NumbersUsedUp, begin, event_of
from couriermq.core.model import UNENDING
from couriermq.core.shards import STEP
from couriermq.storage.base import CannotOpen
from couriermq.storage.sqlite.checksums import checksum, sound
from couriermq.storage.sqlite.queries import Q

IDENTITY = "identity"
NEXT = "next_numbers"
MARK = "new_incarnation"
"""Its value is the reason why the next open begins a new incarnation."""
STORE_DIGITS = 24

_decode = msgspec.msgpack.Decoder(Identity).decode
_numbers = msgspec.msgpack.Decoder(tuple[int, int, int]).decode
log = logging.getLogger(__name__)


def mark(db: sqlite3.Connection, reason: str) -> None:
    """Have the next open of this database, which an earlier version may have written, begin a new incarnation."""
    columns = {name for _, name, *_ in db.execute("PRAGMA table_info(meta)")}
    if "crc" in columns:
        db.execute(Q.put_meta, (MARK, reason))
    else:  # the migration computes the checksums
        db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (MARK, reason))


def read(db: sqlite3.Connection) -> Identity | None:
    row = db.execute(Q.read_meta, (IDENTITY,)).fetchone()
    return _decode(sound("the identity of the store", row)[0]) if row else None


def next_numbers(db: sqlite3.Connection) -> tuple[int, int, int] | None:
    """The offset, seq and number of a lease that a store goes on with whose journal came without rows of its lane."""
    kept = db.execute(Q.read_meta, (NEXT,)).fetchone()
    return None if kept is None else _numbers(sound("the numbers to go on with", kept)[0])


def open_identity(db: sqlite3.Connection, *, now: Callable[[], int]) -> Identity:
    """The identity, made where the store has none; a database that is marked begins a new incarnation."""
    marked = db.execute(Q.read_meta, (MARK,)).fetchone()
    known = read(db)
    if known is not None and marked is None:
        return known
    db.execute("BEGIN IMMEDIATE")
    try:
        identity = known or Identity(store=fresh_key().hex()[:STORE_DIGITS])
        if marked is not None:
            reason = str(sound("the reason for a new incarnation", marked)[0])
            identity = _begin(db, identity, now(), reason=reason)
        db.execute(Q.put_meta, (IDENTITY, msgspec.msgpack.encode(identity)))
        db.execute(Q.delete_meta, (MARK,))
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
    return identity


def _begin(db: sqlite3.Connection, identity: Identity, now: int, *, reason: str) -> Identity:
    """Jump ahead with all numbers, and end all leases but claims, which belong to a job and not to a receipt."""
    newest = db.execute(Q.counters).fetchone()
    if newest:
        offset, next_seq, next_lease, newest_at = sound("the end of the journal", newest)
    else:
        (offset, next_seq, next_lease), newest_at = next_numbers(db) or (0, 1, 1), now
    (held,) = db.execute(Q.highest_seq).fetchone()
    counters = Counters(next_seq=max(next_seq, held + 1), seq_end=STEP, next_offsets=[offset], newest_at=newest_at)
    tag = int.from_bytes(fresh_key()[:8], "big")
    try:
        identity = begin(identity, counters, now=max(now, newest_at), tag=tag, reason=reason)
    except NumbersUsedUp as error:
        raise CannotOpen(str(error)) from error
    present, events = identity.present, packed([event_of(identity)])
    head = (present.jumps[0].first, 1, present.began_at, present.first_seq, next_lease, 0, None, None, crc32(events))
    db.execute(Q.insert_journal, (*head, checksum(head), events))
    for query in (Q.end_leases_of_packs, Q.end_leases_of_singles):
        db.execute(query, {"now": present.began_at, "unending": UNENDING})
    log.warning(
        "a new incarnation of the store begins: %s; receipts and positions from before are no longer accepted", reason,
        extra={"store": identity.store, "incarnation": present.name},
    )  # fmt: skip
    return identity
