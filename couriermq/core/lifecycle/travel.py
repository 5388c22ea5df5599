"""Messages between the shards of a store.

A message for a queue of another shard waits where it was, under the key of a stand-in for that queue. It is copied to
its queue first and removed here afterwards, so that a crash in between makes it arrive again: an arrival is remembered
by the message's seq and turn, and the second one is dropped.
"""

from collections.abc import Sequence

import msgspec

from couriermq.core.lifecycle.fifo import refresh_group
from couriermq.core.lifecycle.members import extract_each, find_each
from couriermq.core.lifecycle.needs import Content, Deciding, Dedup, Exclusive, Found, Ready
from couriermq.core.lifecycle.rows import Contents, Single
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import COMMIT_BYTES, Room
from couriermq.core.model import DAY, Kind, Queue, State

Traveller = tuple[int, Single, bytes]
"""A message between shards: its seq, its row and its body."""

MEMORY_MS = DAY
"""How long an arrival is remembered: far longer than it takes to remove the message where it was."""


def travellers(unit: Unit, key: int, *, limit: int) -> Deciding[list[Traveller]]:
    """Messages that wait under the key of a stand-in, as many as fit into a commit."""
    found: Found = yield Ready(key, limit)
    room = Room(COMMIT_BYTES)
    singles = [single for single in found.singles[:limit] if room.takes(single.size)]
    contents: Contents = yield Content((), singles)
    return [(single.seq, single, contents.body_of(single)) for single in singles]


def arrive(unit: Unit, queue: Queue, arrivals: Sequence[Traveller], *, now: int) -> Deciding[None]:
    """Put travellers into their queue, each once however often it comes. Nothing happens to them: no event, no turn."""
    yield Exclusive([queue.key])
    names = [(-queue.key, f"arrived:{seq}:{single.turn}") for seq, single, _ in arrivals]
    remembered: dict[tuple[int, str], tuple[int, int, str]] = yield Dedup(names)
    tally = unit.tally(queue.key)
    for name, (seq, single, body) in zip(names, arrivals, strict=True):
        if remembered.get(name, (0,))[0] > now:
            continue
        group = (single.group or "") if queue.kind is Kind.FIFO else (single.group or None)
        arrived = msgspec.structs.replace(
            single, queue=queue.key, group=group, origin=None, start=None, position=0, is_stored=False
        )
        unit.put(arrived)
        unit.changes.bodies[seq] = body
        unit.changes.dedups.append((*name, now + MEMORY_MS, seq, single.id))
        tally.add(State.READY, single.size)
        tally.oldest_at = None
        unit.made_ready(queue.key)
        unit.due(tally, single.entered_at + queue.settings.retention_ms)
        if queue.kind is Kind.FIFO:
            yield from refresh_group(unit, queue, group, leased=0)


def depart(unit: Unit, key: int, seqs: Sequence[int]) -> Deciding[None]:
    """Forget travellers that have arrived."""
    members = yield from find_each(unit, key, seqs)
    for single in (yield from extract_each(unit, members)):
        unit.drop(single)
        unit.tally(key).remove(single.state, single.size)
