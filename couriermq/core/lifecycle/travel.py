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
    singles = yield from _waiting(key, limit)
    contents: Contents = yield Content((), singles)
    return [(single.seq, single, contents.body_of(single)) for single in singles]


def arrive(unit: Unit, queue: Queue, arrivals: Sequence[Traveller], *, now: int) -> Deciding[None]:
    """Put travellers into their queue, each once however often it comes. Nothing happens to them: no event, no turn."""
    yield Exclusive([queue.key])
    remembered = yield from _remembered(queue, [single for _, single, _ in arrivals], now)
    for seq, single, body in arrivals:
        if seq in remembered:
            continue
        arrived = msgspec.structs.replace(single, origin=None, start=None, position=0, is_stored=False)
        unit.changes.bodies[seq] = body
        unit.changes.dedups.append((*_name(queue, single), now + MEMORY_MS, seq, single.id))
        yield from _enter(unit, queue, arrived)


def come_home(unit: Unit, key: int, queue: Queue, *, limit: int, now: int) -> Deciding[int]:
    """The same for messages that wait where their queue has moved to meanwhile; how many they were."""
    yield Exclusive([queue.key])
    singles = yield from _waiting(key, limit)
    remembered = yield from _remembered(queue, singles, now)
    for single in singles:
        unit.tally(key).remove(single.state, single.size)
        if single.seq in remembered:
            unit.drop(single)
        else:
            yield from _enter(unit, queue, single)
    return len(singles)


def _waiting(key: int, limit: int) -> Deciding[list[Single]]:
    """Messages under the key of a stand-in, as many as fit into a commit."""
    found: Found = yield Ready(key, limit)
    room = Room(COMMIT_BYTES)
    return [single for single in found.singles[:limit] if room.takes(single.size)]


def _remembered(queue: Queue, singles: Sequence[Single], now: int) -> Deciding[set[int]]:
    """The seqs of those that have arrived before."""
    names = {_name(queue, single): single.seq for single in singles}
    found: dict[tuple[int, str], tuple[int, int, str]] = yield Dedup(list(names))
    return {names[name] for name, (until_at, *_) in found.items() if until_at > now}


def _name(queue: Queue, single: Single) -> tuple[int, str]:
    return -queue.key, f"arrived:{single.seq}:{single.turn}"


def _enter(unit: Unit, queue: Queue, single: Single) -> Deciding[None]:
    single.queue = queue.key
    single.group = (single.group or "") if queue.kind is Kind.FIFO else (single.group or None)
    unit.put_moved(single)
    tally = unit.tally(queue.key)
    tally.add(State.READY, single.size)
    tally.oldest_at = None
    unit.made_ready(queue.key)
    unit.due(tally, single.entered_at + queue.settings.retention_ms)
    if queue.kind is Kind.FIFO:
        yield from refresh_group(unit, queue, single.group, leased=0)


def depart(unit: Unit, key: int, seqs: Sequence[int]) -> Deciding[None]:
    """Forget travellers that have arrived."""
    members = yield from find_each(unit, key, seqs)
    for single in (yield from extract_each(unit, members)):
        unit.drop(single)
        unit.tally(key).remove(single.state, single.size)
