"""Which store this is, kept in its database; and the beginning of a new incarnation, in a database that was restored.

PITR and the promotion of a standby begin a new timeline, a dump is restored into other tables. Both may have lost the
end of what there was, and both can be seen: the database does not come from where it came from before.
"""

import logging
from collections.abc import Awaitable, Callable

import msgspec

from couriermq.clock import fresh_key
from couriermq.core.chronicle import packed
from couriermq.core.incarnations import Counters, Identity, NumbersUsedUp, begin, event_of
from couriermq.core.model import UNENDING
from couriermq.core.shards import first_of, range_end
from couriermq.storage.base import CannotOpen
from couriermq.storage.postgres.wire import Connection

IDENTITY, ORIGIN, MARK = "identity", "origin", "new_incarnation"
STORE_DIGITS = 24
UNKNOWN = "?"
OTHER_ORIGIN = "the database was restored or promoted"
LOCK = -6

_ALLOWED = "SELECT has_function_privilege('pg_control_system()', 'execute'),"
_ALLOWED += " has_function_privilege('pg_current_wal_lsn()', 'execute')"
_ALLOWED += " AND has_function_privilege('pg_walfile_name(pg_lsn)', 'execute')"
_SYSTEM = "(SELECT system_identifier::text FROM pg_control_system())"
_TIMELINE = "left(pg_walfile_name(pg_current_wal_lsn()), 8)"  # that of the last checkpoint is older after a promotion
_DATABASE = "(SELECT oid FROM pg_database WHERE datname = current_database())"
_TABLE = "'meta'::regclass::oid"
_PUT = "INSERT INTO meta (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"

_decode = msgspec.msgpack.Decoder(Identity).decode
log = logging.getLogger(__name__)


async def origin_of(connection: Connection) -> str:
    """The cluster, its timeline, the database and the table; what this role may not ask for is unknown."""
    system, timeline = (await (await connection.execute(_ALLOWED)).fetchall())[0]
    parts = [_SYSTEM if system else f"'{UNKNOWN}'", _TIMELINE if timeline else f"'{UNKNOWN}'", _DATABASE, _TABLE]
    ((origin,),) = await (await connection.execute(f"SELECT concat_ws('/', {', '.join(parts)})".encode())).fetchall()
    return str(origin)


class Guard:
    """Looks at each connection of a node before it is used: the database may have changed over since the last one.

    Its numbers have not jumped ahead then, and what the node knows may be lost there: `renew` sees to both.
    """

    def __init__(self, renew: Callable[[Connection], Awaitable[str]]) -> None:
        self.origin: str | None = None
        self._renew = renew

    async def check(self, connection: Connection) -> None:
        if self.origin is not None and await origin_of(connection) != self.origin:
            self.origin = await self._renew(connection)


async def mark(connection: Connection, reason: str) -> None:
    """Have the next node that starts begin a new incarnation."""
    await connection.execute(_PUT, (MARK, reason.encode()))


async def read(connection: Connection) -> Identity | None:
    found = await _meta(connection, IDENTITY)
    return None if found is None else _decode(found)


async def open_identity(
    connection: Connection, *, shard: int, space: int, now: Callable[[], int]
) -> tuple[Identity, str]:
    """The identity and the origin; a database from elsewhere, or one that is marked, begins a new incarnation."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (space, LOCK))
        known, marked, kept = [await _meta(connection, name) for name in (IDENTITY, MARK, ORIGIN)]
        origin = await origin_of(connection)
        reason = marked.decode() if marked is not None else _difference(kept, origin)
        identity = Identity(store=fresh_key().hex()[:STORE_DIGITS]) if known is None else _decode(known)
        if reason is not None:
            identity = await _begin(connection, identity, now(), shard=shard, reason=reason)
        if known is None or reason is not None:
            await connection.execute(_PUT, (IDENTITY, msgspec.msgpack.encode(identity)))
        if kept is None or kept.decode() != origin:
            await connection.execute(_PUT, (ORIGIN, origin.encode()))
        await connection.execute("DELETE FROM meta WHERE name = %s", (MARK,))
    return identity, origin


def _difference(kept: bytes | None, origin: str) -> str | None:
    """Why the database is not the one that was served last; what was not known then, or is not now, says nothing."""
    if kept is None:
        return None
    pairs = zip(kept.decode().split("/"), origin.split("/"), strict=True)
    return OTHER_ORIGIN if any(one != other and UNKNOWN not in {one, other} for one, other in pairs) else None


async def _meta(connection: Connection, name: str) -> bytes | None:
    row = await (await connection.execute("SELECT value FROM meta WHERE name = %s", (name,))).fetchone()
    return None if row is None else bytes(row[0])


async def _begin(connection: Connection, identity: Identity, now: int, *, shard: int, reason: str) -> Identity:
    """Jump ahead with all numbers, and end all leases but claims, which belong to a job and not to a receipt."""
    newest = await (
        await connection.execute("SELECT start + count, at FROM journal ORDER BY start DESC LIMIT 1")
    ).fetchone()
    ((last, is_called),) = await (await connection.execute("SELECT last_value, is_called FROM message_seq")).fetchall()
    offset, newest_at = newest or (first_of(shard), now)
    next_seq = last + is_called
    counters = Counters(
        next_seq=next_seq,
        seq_end=range_end(next_seq),
        next_offsets=[offset],
        newest_at=newest_at,
    )
    tag = int.from_bytes(fresh_key()[:8], "big")
    try:
        identity = begin(identity, counters, now=max(now, newest_at), tag=tag, reason=reason)
    except NumbersUsedUp as error:
        raise CannotOpen(str(error)) from error
    present, events = identity.present, packed([event_of(identity)])
    await connection.execute("SELECT setval('message_seq', %s, false)", (present.first_seq,))
    await connection.execute(
        "INSERT INTO journal (start, count, at, size, events) VALUES (%s, 1, %s, %s, %s)",
        (present.jumps[0].first, present.began_at, len(events), events),
    )
    ended = {"now": present.began_at, "unending": UNENDING}
    await connection.execute(
        "UPDATE message SET due_at = %(now)s WHERE state = 2 AND due_at > %(now)s AND due_at <> %(unending)s", ended
    )
    await connection.execute("UPDATE held SET due_at = %(now)s WHERE due_at > %(now)s", ended)
    log.warning(
        "a new incarnation of the store begins: %s; receipts and positions from before are no longer accepted", reason,
        extra={"store": identity.store, "incarnation": present.name},
    )  # fmt: skip
    return identity
