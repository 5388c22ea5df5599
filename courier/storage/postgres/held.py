"""Messages that were leased together, several in a row of the database.

What one receive takes out of bundles mostly ends with one call, too: an ack of all of it. So it is kept as it was
taken, under a lease number that all of it shares and that leads there from a receipt. Whatever happens to a single
message takes it out: what is acked is gone, what is released or extended becomes a row of its own. Messages only ever
go from bundles to here and from here to rows, so whoever looks in that order misses none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import msgspec

from courier.core.model import State
from courier.storage.postgres.arrays import blobs, numbers
from courier.storage.postgres.bundles import MOST_BYTES, MOST_MESSAGES
from courier.storage.postgres.link import Step
from courier.storage.postgres.queries import Q
from courier.storage.postgres.rows import Row, encode

LEAST = 2
"""Fewer messages than that are not worth the trouble."""
FIRST_NO = 1 << 20
"""From here on lease numbers may lead here; the leases of a single message are counted from 1."""
_LAST_NO = (1 << 31) - (1 << 24)

Place = tuple[int, int]
"""Queue key and lease number."""


class Fact(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What is known of a message without its content, which is at `place` among the contents."""

    place: int
    seq: int
    id: str
    entered_at: int
    size: int
    grp: bytes | None


_facts = msgspec.msgpack.Decoder(list[Fact]).decode
_contents = msgspec.msgpack.Decoder(list[bytes]).decode


def lease_nos(start: int) -> Iterator[int]:
    """Numbers that a node gives to what it leases. Should another node use one for the same queue in the same moment,
    the database refuses it and the next one does."""
    return (FIRST_NO + number % (_LAST_NO - FIRST_NO) for number in count(start))


def own_no(lease_no: int) -> int:
    """Once a message stands for itself and its lease has ended, its leases are counted from 1: a receipt then leads to
    its row at once. It has never had so low a number before, because it was among others from the start."""
    return lease_no if lease_no < FIRST_NO else 1


class Hand:
    """A row of `held` in the hands of a transaction, locked."""

    __slots__ = ("is_touched", "places", "rows")

    def __init__(self, place: Place, due_at: int, facts: bytes) -> None:
        queue, lease_no = place
        self.places: dict[int, int] = {}
        self.rows: dict[int, Row] = {}
        """By seq, what is still in it."""
        self.is_touched = False
        for fact in _facts(facts):
            self.places[fact.seq] = fact.place
            self.rows[fact.seq] = Row(
                fact.seq, queue, fact.id, State.LEASED, due_at, 1, lease_no, fact.entered_at, None, fact.size,
                fact.grp, None, None,
            )  # fmt: skip

    def fill(self, contents: bytes) -> None:
        """Add to each message what it says."""
        bodies = _contents(contents)
        for seq, row in self.rows.items():
            row.content = bodies[self.places[seq]]

    def take(self, seq: int) -> None:
        del self.rows[seq]
        self.is_touched = True


def unpack(queue: int, lease_no: int, due_at: int, facts: bytes, contents: bytes) -> list[Row]:
    """The messages of a row, for somebody who only looks."""
    hand = Hand((queue, lease_no), due_at, facts)
    hand.fill(contents)
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


def insert(leased: Iterable[Sequence[Row]]) -> Step:
    """Write what was leased together; of each part queue, lease number and end are the same for all."""
    chosen = list(leased)
    facts = [[_fact(place, row) for place, row in enumerate(part)] for part in chosen]
    return Q.insert_held, {
        "queues": numbers(part[0].queue for part in chosen),
        "lease_nos": numbers(part[0].lease_no for part in chosen),
        "due_ats": numbers(part[0].due_at for part in chosen),
        **_spans(chosen),
        "facts": blobs(map(encode, facts)),
        "contents": blobs(encode([row.content for row in part]) for part in chosen),
    }


def _fact(place: int, row: Row) -> tuple[Any, ...]:
    return place, row.seq, row.id, row.entered_at, row.size, row.grp


def _spans(chosen: Sequence[Iterable[Row]]) -> dict[str, str]:
    found = [list(part) for part in chosen]
    return {
        "seqs": numbers(min([row.seq for row in part]) for part in found),
        "lasts": numbers(max([row.seq for row in part]) for part in found),
        "entered_ats": numbers(min([row.entered_at for row in part]) for part in found),
        "newest_ats": numbers(max([row.entered_at for row in part]) for part in found),
        "counts": numbers(map(len, found)),
        "sizes": numbers(sum([row.size for row in part]) for part in found),
    }


def write(touched: Mapping[Place, Hand]) -> Iterator[Step]:
    """Rows of which something was taken: what is left stays, and one that is empty goes.

    One that stays is changed in its place, so that whoever waits for its lock sees what it has become.
    """
    empty = [place for place, hand in touched.items() if not hand.rows]
    if empty:
        yield Q.delete_held, _places(empty)
    kept = {place: hand for place, hand in touched.items() if hand.rows}
    if kept:
        facts = [[_fact(hand.places[seq], row) for seq, row in hand.rows.items()] for hand in kept.values()]
        spans = _spans([hand.rows.values() for hand in kept.values()])
        yield Q.change_held, {**_places(list(kept)), **spans, "facts": blobs(map(encode, facts))}


def named(places: Iterable[Place], *, whole: bool) -> Step:
    """The question for rows by queue and lease number, in an order that all nodes keep."""
    return Q.held_whole if whole else Q.held_facts, _places(sorted(places))


def _places(places: Sequence[Place]) -> dict[str, str]:
    return {"queues": numbers(queue for queue, _ in places), "lease_nos": numbers(number for _, number in places)}
