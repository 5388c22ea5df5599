"""Stores from before the journal had lanes: schema 3.

There, messages that waited or were leased together shared a row with their contents. Here each becomes a row of
`message` with its body in `payload`; the journal becomes the first lane of the shard, with the same offsets.
"""

import struct
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any
from zlib import crc32

import msgspec
import psycopg

from couriermq.core.lanes import lane_of
from couriermq.core.lifecycle.rows import encode
from couriermq.core.model import Attribute
from couriermq.storage.base import CannotOpen

CONVERTED = 4
"""The step of the schema that needs this."""
BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024
NO_OWNER = -1
"""The lane of figures that no connection adds to."""
FIRST_LEASE_BLOCK = 2_130_707_001
"""Above every number of a lease that schema 3 gave out, so that no receipt from then fits a lease from now on."""
READY, LEASED = 1, 2
MOST_TOGETHER = 32
"""Messages that shared a row."""

_NODES = """
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND classid = current_schema()::regnamespace::oid AND objid::bigint BETWEEN 2147483648 AND 3221225471
"""
_MESSAGES = """
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, size, given, id, grp, origin, death,
       content
FROM (
    SELECT *, sum(octet_length(content)) OVER (ORDER BY seq) - octet_length(content) AS before FROM message_before
    WHERE seq > %s ORDER BY seq LIMIT %s
) AS page WHERE before < %s ORDER BY seq
"""
_BUNDLES = """
SELECT queue, seq, seqs, ids, ats, sizes, contents FROM (
    SELECT *, sum(octet_length(contents)) OVER (ORDER BY queue, seq) - octet_length(contents) AS before
    FROM bundle_before WHERE (queue, seq) > (%s, %s) ORDER BY queue, seq LIMIT %s
) AS page WHERE before < %s ORDER BY queue, seq
"""
_HELD = """
SELECT lease_no, queue, due_at, seqs, ids, ats, sizes, places, contents FROM (
    SELECT *, sum(octet_length(contents)) OVER (ORDER BY lease_no, queue) - octet_length(contents) AS before
    FROM held_before WHERE (lease_no, queue) > (%s, %s) ORDER BY lease_no, queue LIMIT %s
) AS page WHERE before < %s ORDER BY lease_no, queue
"""
_JOURNAL = """
SELECT start, events FROM (
    SELECT start, events, sum(size) OVER (ORDER BY start) - size AS before FROM journal_before
    WHERE start > %s ORDER BY start LIMIT %s
) AS page WHERE before < %s ORDER BY start
"""
_COPY_JOURNAL = """
INSERT INTO journal (start, count, at, private, crc, events)
SELECT start, count, at, FALSE, crc, events
FROM journal_before JOIN unnest(%s::bigint[], %s::bigint[]) AS k (start, crc) USING (start)
"""
_COPY_TALLIES = """
INSERT INTO tally (queue, lane, ready, delayed, leased, bytes, sent, acked, dead)
SELECT DISTINCT ON (queue) queue, %s::int, ready, delayed, leased, bytes, sent, acked, dead FROM tally_before
ORDER BY queue, version DESC
"""
COLUMNS = (
    "seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,"
    " content_type, attributes, grp, trace, origin, death, position, turn"
)
_DROP = "DROP TABLE message_before, bundle_before, held_before, tally_before, journal_before"

Connection = psycopg.AsyncConnection[Any]
Values = tuple[Any, ...]


class Content(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What of a message never changed, as schema 3 stored it."""

    body: bytes
    content_type: str
    sent_at: int
    delay_ms: int = 0
    attributes: dict[str, Attribute] = {}
    trace: str | None = None


_content = msgspec.msgpack.Decoder(Content).decode
_contents = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


async def convert(connection: Connection) -> None:
    """Fill the tables of schema 4 from those of schema 3, which go; inside the transaction of that step."""
    ((nodes,),) = await _rows(connection, _NODES)
    if nodes:
        raise CannotOpen(
            "nodes of an earlier Courier are running on this database, which this one has to convert; stop them first"
        )
    count = 0
    for source in (_singles(connection), _bundled(connection), _held(connection)):
        async for messages in source:
            await put_messages(connection, messages)
            count += len(messages)
    if count:
        await connection.execute("SELECT setval('lease_block', %s, FALSE)", (FIRST_LEASE_BLOCK,))
    await _convert_journal(connection)
    await connection.execute(_COPY_TALLIES, (NO_OWNER,))
    await connection.execute(_DROP)


async def _rows(connection: Connection, sql: str, *values: Any) -> list[Values]:
    return await (await connection.execute(sql.encode(), values, binary=True)).fetchall()


async def put_messages(connection: Connection, messages: Sequence[tuple[Values, bytes]]) -> None:
    """Write messages, each as the values of COLUMNS and its body."""
    async with connection.cursor().copy(f"COPY message ({COLUMNS}) FROM STDIN".encode()) as copy:
        for values, _ in messages:
            await copy.write_row(values)
    async with connection.cursor().copy(b"COPY payload (seq, body, crc) FROM STDIN") as copy:
        for values, body in messages:
            await copy.write_row((values[0], body, crc32(body)))


# -- messages -----------------------------------------------------------------------------------------------------


async def _singles(connection: Connection) -> AsyncIterator[list[tuple[Values, bytes]]]:
    seq = 0
    while rows := await _rows(connection, _MESSAGES, seq, BATCH, BATCH_BYTES):
        seq = rows[-1][0]
        yield [_message(*row) for row in rows]


async def _bundled(connection: Connection) -> AsyncIterator[list[tuple[Values, bytes]]]:
    """Messages that waited as they came."""
    queue, seq = -(2**31), 0
    while rows := await _rows(connection, _BUNDLES, queue, seq, BATCH, BATCH_BYTES):
        queue, seq = rows[-1][:2]
        yield [
            _message(seq, key, READY, at, 0, 0, at, None, size, False, id_, None, None, None, content)
            for key, _, *columns, contents in rows
            for (seq, id_, at, size), content in zip(
                _facts(*columns), _pieces(len(columns[0]) // 9, contents), strict=True
            )
        ]


async def _held(connection: Connection) -> AsyncIterator[list[tuple[Values, bytes]]]:
    """Messages that were leased together; `places` says which of the contents are left."""
    lease_no, queue = 0, 0
    while rows := await _rows(connection, _HELD, lease_no, queue, BATCH, BATCH_BYTES):
        lease_no, queue = rows[-1][:2]
        yield [
            _message(seq, key, LEASED, due_at, 1, number, at, None, size, False, id_, None, None, None, content)
            for number, key, due_at, *columns, places, contents in rows
            for (seq, id_, at, size), content in zip(_facts(*columns), _chosen(number, places, contents), strict=True)
        ]


def _message(
    seq: int, queue: int, state: int, due_at: int, attempts: int, lease_no: int, entered_at: int,
    discard_at: int | None, size: int, given: bool, id_: bytes, grp: bytes | None, origin: int | None,
    death: bytes | None, packed: bytes,
) -> tuple[Values, bytes]:  # fmt: skip
    """A row of `message`, and the body."""
    content = _content(packed)
    attributes = encode(content.attributes) if content.attributes else None
    trace = None if content.trace is None else content.trace.encode()
    values = (
        seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, content.sent_at, content.delay_ms, size,
        int(given), id_, content.content_type.encode(), attributes, grp, trace, origin, death, 0, 0,
    )  # fmt: skip
    return values, content.body


def _facts(seqs: bytes, ids: bytes, ats: bytes, sizes: bytes) -> Iterable[tuple[int, bytes, int, int]]:
    """Each column was one value after the other, as MessagePack writes it, all of one width."""
    count = len(seqs) // 9
    texts = [ids[at + 2 : at + 34] for at in range(0, 34 * count, 34)]
    numbers = struct.Struct(">" + count * "xQ")
    return zip(numbers.unpack(seqs), texts, numbers.unpack(ats), struct.unpack(">" + count * "xI", sizes), strict=True)


def _pieces(count: int, contents: bytes) -> list[bytes]:
    """The values of a column, packed back to back without the header of an array."""
    return [bytes(piece) for piece in _contents(struct.pack(">BH", 0xDC, count) + contents)]


def _chosen(lease_no: int, places: bytes | None, contents: bytes) -> list[bytes]:
    """The number of a lease also says how many messages were leased under it."""
    pieces = _pieces(lease_no % MOST_TOGETHER + 1, contents)
    return pieces if places is None else [pieces[place] for place in places]


# -- the journal --------------------------------------------------------------------------------------------------


async def _convert_journal(connection: Connection) -> None:
    """Rows keep their offsets; only checksums are new."""
    start = -1
    while rows := await _rows(connection, _JOURNAL, start, BATCH, BATCH_BYTES):
        start = rows[-1][0]
        checksums = [crc32(events) for _, events in rows]
        await connection.execute(_COPY_JOURNAL, ([first for first, _ in rows], checksums))
    ((oldest,),) = await _rows(connection, "SELECT min(start) FROM journal")
    if oldest is not None:
        await connection.execute("INSERT INTO lane (number, oldest) VALUES (%s, %s)", (lane_of(oldest), oldest))
