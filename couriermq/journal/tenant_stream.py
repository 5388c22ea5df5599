"""Events as one tenant reads them in bulk: as an Arrow stream, and as partitions that tasks read in parallel.

Where a batch or a partition ends depends on the tenant's own events alone. The record batches of a stream say in their
metadata where to go on after them, because the events' own offsets cannot be counted with.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from couriermq.core.numbers import Numbers
from couriermq.journal import arrow, tenant_view
from couriermq.journal.schema import NAMES

if TYPE_CHECKING:
    import pyarrow as pa

    Tables = AsyncIterator[tuple[pa.Table, int]]

BATCH_ROWS = 4_096
BATCH_BYTES = 4 * 1024 * 1024
"""Of bodies and details; a record batch ends before the event that would exceed it."""
NEXT, AT_END = "courier-next", "courier-at-end"
"""Keys of a record batch's metadata: the position after it, and, in the last one, whether the range ends there."""


class Partition(msgspec.Struct, frozen=True):
    """Offsets `start` up to `stop`, with so many of the events that were asked for."""

    start: int
    stop: int
    count: int


def columns_for(columns: Sequence[str] | None) -> list[str]:
    """The columns that `stream` must get to write these."""
    wanted = NAMES if columns is None else columns
    return [*wanted, *(name for name in tenant_view.COLUMNS if name not in wanted)]


async def stream(
    tables: "Tables", numbers: Numbers, *, start: int, stop: int, limit: int, columns: Sequence[str] | None
) -> AsyncIterator[bytes]:
    """Up to `limit` events of the tables, which cover offsets from `start` on; the range ends at `stop`.

    A stream that has `limit` events does not say whether it has reached the end: events of others may follow.
    """
    writer = await asyncio.to_thread(arrow.StreamWriter, columns)
    rest, reached, left = None, start, limit
    async for table, looked_until in tables:
        reached = looked_until
        pieces, rest = await asyncio.to_thread(_cut, rest, table, left)
        for piece in pieces:
            left -= piece.num_rows
            yield await asyncio.to_thread(_write, writer, piece, numbers)
        if not left:
            reached = _after(pieces[-1])
            break
    if left and rest is not None and rest.num_rows:
        yield await asyncio.to_thread(_write, writer, rest, numbers)
    metadata = {NEXT: str(numbers.position(reached)), AT_END: "true" if left and reached >= stop else "false"}
    yield writer.write(arrow.table([], columns or NAMES), metadata)
    yield writer.close()


def _write(writer: arrow.StreamWriter, table: "pa.Table", numbers: Numbers) -> bytes:
    metadata = {NEXT: str(numbers.position(_after(table)))}
    return writer.write(tenant_view.show_table(table, numbers), metadata)


def _after(table: "pa.Table") -> int:
    return int(table.column("offset")[-1].as_py()) + 1


def _cut(rest: "pa.Table | None", table: "pa.Table", limit: int) -> "tuple[list[pa.Table], pa.Table]":
    """The whole batches of what is there by now, up to `limit` rows, and the rows after them."""
    import pyarrow as pa  # noqa: PLC0415

    rows = table if rest is None else pa.concat_tables([rest, table])
    starts = [0, *_ends(_sizes(rows), limit)]
    pieces = [rows.slice(start, end - start) for start, end in pairwise(starts)]
    return pieces, rows.slice(starts[-1])


def _ends(sizes: Sequence[int], limit: int) -> Iterator[int]:
    """The numbers of rows before which a batch ends."""
    first = total = 0
    for row, size in enumerate(sizes[:limit]):
        if row > first and total + size > BATCH_BYTES:
            yield row
            first, total = row, 0
        total += size
        if row + 1 - first == BATCH_ROWS or row + 1 == limit:
            yield row + 1
            first, total = row + 1, 0


def _sizes(table: "pa.Table") -> list[int]:
    """The bytes of each row that may be many."""
    import pyarrow.compute as pc  # noqa: PLC0415

    lengths = [
        pc.fill_null(pc.binary_length(table.column(n)), 0) for n in ("body", "detail") if n in table.schema.names
    ]
    if not lengths:
        return [0] * table.num_rows
    both = pc.add(*lengths) if len(lengths) == 2 else lengths[0]
    sizes: list[int] = both.to_pylist()
    return sizes


async def partitions(tables: "Tables", *, start: int, stop: int, rows: int, most: int) -> list[Partition]:
    """The range in partitions of `rows` events, at most so many of them.

    The last one ends where the tables do. Events after the range's last one make no partition of their own.
    """
    found: list[Partition] = []
    begun, count, reached = start, 0, start
    async for table, looked_until in tables:
        reached = looked_until
        for offset in table.column("offset").to_pylist():
            if count == rows:
                found.append(Partition(begun, offset, count))
                begun, count = offset, 0
                if len(found) == most:
                    return found
            count += 1
    if begun < reached or not found:
        found.append(Partition(begun, min(reached, max(start, stop)), count))
    return found
