"""Which store this is, kept in its database; and the beginning of a new incarnation, in a database that was restored.

PITR and the promotion of a standby begin a new timeline, a dump is restored into other tables. Both may have lost the
end of what there was, and both can be seen: the database does not come from where it came from before.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from zlib import crc32

import msgspec

from couriermq.clock import fresh_key
from couriermq.core.chronicle import packed
from couriermq.core.incarnations import Counters, Identity, NumbersUsedUp, begin, event_of
from couriermq.core.jumps import Jump, skip
from couriermq.core.lanes import first_lane, first_of_lane
from couriermq.core.model import UNENDING
from couriermq.core.shards import range_end
from couriermq.storage.base import CannotOpen
from couriermq.storage.postgres.connection import Connection, ask
from couriermq.storage.postgres.facts import Q

IDENTITY, ORIGIN, MARK = "identity", "origin", "new_incarnation"
STORE_DIGITS = 24
UNKNOWN = "?"
OTHER_ORIGIN = "the database was restored or promoted"
LOCK = -7

_ALLOWED = "SELECT has_function_privilege('pg_control_system()', 'execute'),"
_ALLOWED += " has_function_privilege('pg_current_wal_lsn()', 'execute')"
_ALLOWED += " AND has_function_privilege('pg_walfile_name(pg_lsn)', 'execute')"
_SYSTEM = "(SELECT system_identifier::text FROM pg_control_system())"
_TIMELINE = "left(pg_walfile_name(pg_current_wal_lsn()), 8)"  # that of the last checkpoint is older after a promotion
_DATABASE = "(SELECT oid FROM pg_database WHERE datname = current_database())"
_TABLE = "'meta'::regclass::oid"
_PUT = "INSERT INTO meta (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_END_LEASES = "UPDATE {} SET due_at = %(now)s WHERE state = 2 AND due_at > %(now)s AND due_at <> %(unending)s"

_decode = msgspec.msgpack.Decoder(Identity).decode
log = logging.getLogger(__name__)


class Guard:
    """The identity of the store as a node knows it. Looks at each connection before it is used: the database may have
    changed over since the last one. Its numbers have not jumped ahead then, and it may lack what the node knows."""

    def __init__(
        self, *, shard: int, now: Callable[[], int], on_renewal: Callable[[Connection, Identity], Awaitable[None]]
    ) -> None:
        """`on_renewal` is given the new identity; while it fails, no connection is used and the old one holds."""
        self.identity: Identity
        self.node = ""
        """The name that sessions of the node end with."""
        self.origin: str | None = None
        self._shard = shard
        self._now = now
        self._on_renewal = on_renewal
        self._space = 0
        self._checking = asyncio.Lock()

    @property
    def jumps(self) -> Sequence[Jump]:
        return self.identity.jumps

    async def open(self, connection: Connection, *, space: int) -> None:
        self._space = space
        self.identity, self.origin = await self._read(connection)

    async def check(self, connection: Connection) -> None:
        if self.origin is None or (present := await origin_of(connection)) == self.origin:
            return
        async with self._checking:
            if present != self.origin:  # another connection may have found it out meanwhile
                identity, origin = await self._read(connection)
                await self._on_renewal(connection, identity)
                self.identity, self.origin = identity, origin

    async def _read(self, connection: Connection) -> tuple[Identity, str]:
        return await open_identity(connection, shard=self._shard, space=self._space, now=self._now)


async def origin_of(connection: Connection) -> str:
    """The cluster, its timeline, the database and the table; what this role may not ask for is unknown."""
    system, timeline = (await (await connection.execute(_ALLOWED)).fetchall())[0]
    parts = [_SYSTEM if system else f"'{UNKNOWN}'", _TIMELINE if timeline else f"'{UNKNOWN}'", _DATABASE, _TABLE]
    ((origin,),) = await (await connection.execute(f"SELECT concat_ws('/', {', '.join(parts)})".encode())).fetchall()
    return str(origin)


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
        await connection.execute("SELECT pg_advisory_xact_lock(%s::int, %s::int)", (space, LOCK))
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
    """Jump ahead with all numbers, and end all leases but claims, which belong to a job and not to a receipt.

    Every lane jumps, also one without events: the lost end may have had some.
    """
    counters = await _counters(connection, identity, now, shard=shard)
    tag = int.from_bytes(fresh_key()[:8], "big")
    try:
        identity = begin(identity, counters, now=max(now, counters.newest_at), tag=tag, reason=reason)
    except NumbersUsedUp as error:
        raise CannotOpen(str(error)) from error
    present, events = identity.present, packed([event_of(identity)])
    await connection.execute("SELECT setval('message_seq', %s, false)", (present.first_seq,))
    first = present.jumps[0].first
    await connection.execute(
        "INSERT INTO lane (number, oldest) VALUES (%s, %s) ON CONFLICT DO NOTHING", (first_lane(shard), first)
    )
    await connection.execute(
        "INSERT INTO journal (start, count, at, private, crc, events) VALUES (%s, 1, %s, false, %s, %s)",
        (first, present.began_at, crc32(events), events),
    )
    for table in ("message", "pack"):
        await connection.execute(_END_LEASES.format(table).encode(), {"now": present.began_at, "unending": UNENDING})
    log.warning(
        "a new incarnation of the store begins: %s; receipts and positions from before are no longer accepted", reason,
        extra={"store": identity.store, "incarnation": present.name},
    )  # fmt: skip
    return identity


async def _counters(connection: Connection, identity: Identity, now: int, *, shard: int) -> Counters:
    """What the database as it was restored would go on with."""
    ((last, is_called),) = await (await connection.execute("SELECT last_value, is_called FROM message_seq")).fetchall()
    ((newest_at,),) = await (await connection.execute("SELECT max(at) FROM journal")).fetchall()
    lanes = range(first_lane(shard), first_lane(shard + 1))
    (used,) = await ask(connection, [(Q.lanes, (lanes[0], lanes[-1]))])
    ends = {lane: following for lane, _, following in used}
    ((version,),) = (await ask(connection, [(Q.catalog_version, ())]))[0]
    next_seq = last + is_called
    return Counters(
        next_seq=next_seq,
        seq_end=range_end(next_seq),
        next_offsets=[skip(identity.jumps, ends.get(lane, first_of_lane(lane))) for lane in lanes],
        newest_at=now if newest_at is None else newest_at,
        catalog_version=version,
    )
