"""Messages that were leased together, several in a row of the database.

What one receive takes out of bundles mostly ends with one call, too: an ack of all of it. So it is kept as it was
taken, under a lease number that all of it shares and that leads there from a receipt. Whatever happens to a single
message takes it out: what is acked is gone, what is released or extended becomes a row of its own. Messages only ever
go from bundles to here and from here to rows, so whoever looks in that order misses none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from couriermq.core.model import State
from couriermq.storage.postgres import strips
from couriermq.storage.postgres.arrays import blobs, numbers
from couriermq.storage.postgres.bundles import MOST_BYTES, MOST_MESSAGES
from couriermq.storage.postgres.link import Step
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.rows import Row

LEAST = 2
"""Fewer messages than that are not worth the trouble."""
FIRST_NO = 1 << 20
"""From here on lease numbers may lead here; the leases of a single message are counted from 1."""
_LAST_NO = (1 << 31) - (1 << 24)
_STEP = MOST_MESSAGES
"""A lease number also says how many messages were leased under it: how far it is above the last multiple of this."""

Place = tuple[int, int]
"""Queue key and lease number."""


def lease_nos(start: int) -> Iterator[int]:
    """Numbers that a node gives to what it leases, still without the count. Should another node use one for the same
    queue in the same moment, the database refuses it and the next one does."""
    return (FIRST_NO + number % ((_LAST_NO - FIRST_NO) // _STEP) * _STEP for number in count(start))


def number_of(lease_no: int, count: int) -> int:
    """The number under which so many messages are leased."""
    return lease_no + count - 1


def count_of(lease_no: int) -> int:
    """How many messages were leased under a number."""
    return lease_no % _STEP + 1


def own_no(lease_no: int) -> int:
    """Once a message stands for itself and its lease has ended, its leases are counted from 1: a receipt then leads to
    its row at once. It has never had so low a number before, because it was among others from the start."""
    return lease_no if lease_no < FIRST_NO else 1


class Hand:
    """A row of `held` in the hands of a transaction, locked."""

    __slots__ = ("is_touched", "places", "rows")

    def __init__(
        self, place: Place, due_at: int, seqs: bytes, ids: bytes, ats: bytes, sizes: bytes, places: bytes | None
    ) -> None:
        queue, lease_no = place
        numbered = strips.read_longs(seqs)
        self.places = dict(zip(numbered, range(len(numbered)) if places is None else places, strict=True))
        """By seq, which of the contents is a message's."""
        self.rows = {
            seq: Row(seq, queue, id_, State.LEASED, due_at, 1, lease_no, at, None, size, None, None, None)
            for seq, id_, at, size in zip(
                numbered, strips.read_ids(ids), strips.read_longs(ats), strips.read_shorts(sizes), strict=True
            )
        }
        """By seq, what is still in it."""
        self.is_touched = False

    def fill(self, lease_no: int, contents: bytes) -> None:
        """Add to each message what it says."""
        pieces = strips.pieces(count_of(lease_no), contents)
        for seq, row in self.rows.items():
            row.content = pieces[self.places[seq]]

    def take(self, seq: int) -> None:
        del self.rows[seq]
        self.is_touched = True


def unpack(queue: int, lease_no: int, due_at: int, *packed: Any) -> list[Row]:
    """The messages of a row, for somebody who only looks."""
    *facts, contents = packed
    hand = Hand((queue, lease_no), due_at, *facts)
    hand.fill(lease_no, contents)
    return list(hand.rows.values())


def parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """What was leased together, in pieces of a size that can be written anew when one message is settled."""
    first = size = 0
    for last, row in enumerate(rows):
        size += row.size
        if last > first and (last - first == MOST_MESSAGES or size > MOST_BYTES):
            yield rows[first:last]
            first, size = last, row.size
    if rows:
        yield rows[first:]


class Packed(NamedTuple):
    """A row of `held`, in the order of its columns."""

    queue: int
    lease_no: int
    due_at: int
    first: int
    last: int
    entered_at: int
    newest_at: int
    message_count: int
    byte_count: int
    seqs: bytes
    ids: bytes
    ats: bytes
    sizes: bytes
    contents: bytes = b""


_NUMBERS = frozenset(Packed._fields[:9])


def insert(leased: Iterable[Sequence[Row]]) -> Step:
    """Write what was leased together; of each part queue, lease number and end are the same for all."""
    return insert_packed(
        [_packed(part)._replace(contents=b"".join([row.content or b"" for row in part])) for part in leased]
    )


def insert_packed(rows: Sequence[Packed]) -> Step:
    return Q.insert_held, _columns(rows)


def _columns(rows: Sequence[Packed]) -> dict[str, Any]:
    columns = zip(Packed._fields, zip(*rows, strict=True), strict=True)
    return {name: numbers(column) if name in _NUMBERS else blobs(column) for name, column in columns}


def _packed(rows: Iterable[Row]) -> Packed:
    """The facts of messages that share a lease number, without what they say."""
    part = list(rows)
    seqs, ats, sizes = [row.seq for row in part], [row.entered_at for row in part], [row.size for row in part]
    return Packed(
        part[0].queue, part[0].lease_no, part[0].due_at, min(seqs), max(seqs), min(ats), max(ats), len(part),
        sum(sizes), strips.longs(seqs), strips.ids([row.id for row in part]), strips.longs(ats), strips.shorts(sizes),
    )  # fmt: skip


def write(touched: Mapping[Place, Hand]) -> Iterator[Step]:
    """Rows of which something was taken: what is left stays, and one that is empty goes.

    One that stays is changed in its place, so that whoever waits for its lock sees what it has become.
    """
    empty = [place for place, hand in touched.items() if not hand.rows]
    if empty:
        yield Q.delete_held, _places(empty)
    kept = {place: hand for place, hand in touched.items() if hand.rows}
    if kept:
        places = blobs(bytes([hand.places[seq] for seq in hand.rows]) for hand in kept.values())
        yield Q.change_held, {**_columns([_packed(hand.rows.values()) for hand in kept.values()]), "places": places}


def named(places: Iterable[Place], *, whole: bool) -> Step:
    """The question for rows by queue and lease number, in an order that all nodes keep."""
    return Q.held_whole if whole else Q.held_facts, _places(sorted(places))


def _places(places: Sequence[Place]) -> dict[str, str]:
    return {"queues": numbers(queue for queue, _ in places), "lease_nos": numbers(number for _, number in places)}
