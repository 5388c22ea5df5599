"""Statements that write what decisions have come to; many rows are one statement."""

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

from couriermq.core.chronicle import pack_runs
from couriermq.core.lifecycle.rows import Pack, Single, encode
from couriermq.core.lifecycle.unit import Changes, JournalRow, Unit
from couriermq.storage.postgres.connection import Step, blobs, numbers
from couriermq.storage.postgres.facts import Q

NONE = -1
"""In place of a number that is not there, where numbers stand in one list."""


def pending(unit: Unit) -> list[Step]:
    """What writes all changes so far, so that later questions see them."""
    changes = unit.changes
    if changes.is_empty:
        return []
    steps = [_journal_step(row) for row in changes.journal]
    if changes.new_packs:
        steps.append(_insert_packs(changes.new_packs))
    steps += rows_but_new_ones(changes)
    changes.clear()
    return steps


def final(
    unit: Unit, *, lane: int, space: int, known: int, channel: str, notice: str | None, wanted: int
) -> list[Step]:
    """What writes the rest and ends the transaction; the last step answers with the first of `wanted` seqs."""
    changes = unit.changes
    steps = rows_but_new_ones(changes)
    left = [pack for pack in changes.new_packs if pack.remaining]
    plain = [pack for pack in left if not pack.gone]
    if len(plain) < len(left):
        steps.append(_insert_packs([pack for pack in left if pack.gone]))
    packed = [pack_runs(row.runs) for row in changes.journal]
    rows = [number for row, events in zip(changes.journal, packed, strict=True) for number in _numbers_of(row, events)]
    tallies = [number for queue, *figures in unit.changed_tallies() for number in (queue, lane, *figures)]
    seal = (
        space, known, numbers(rows), blobs(packed), numbers(number for pack in plain for number in _numbers_in(pack)),
        numbers(tallies), channel, notice, wanted,
    )  # fmt: skip
    return [*steps, (Q.commit_unit, seal)]


def rows_but_new_ones(changes: Changes) -> list[Step]:
    """All but journal rows and new packs."""
    steps: list[Step] = []
    if changes.packs or changes.shrunk_packs:
        steps.append(_change_packs([*changes.packs.values(), *changes.shrunk_packs.values()]))
    if changes.gone_packs:
        steps.append((Q.delete_packs, (numbers(changes.gone_packs),)))
    if changes.new_singles or changes.singles or changes.moved_singles or changes.gone_singles:
        steps += _singles(changes)
    if changes.bodies:
        bodies = changes.bodies.values()
        steps.append((Q.insert_payloads, (numbers(changes.bodies), blobs(bodies), numbers(map(crc32, bodies)))))
    if changes.new_groups or changes.locked_groups or changes.groups:
        steps += _groups(changes)
    if changes.dedups:
        steps.append(_dedups(changes.dedups))
    for name, values in changes.orders:
        steps.append((getattr(Q, name), [encode(value) if isinstance(value, list) else value for value in values]))
    return steps


def _numbers_of(row: JournalRow, events: bytes) -> tuple[int, ...]:
    first = NONE if row.first_seq is None else row.first_seq
    last = NONE if row.last_seq is None else row.last_seq
    return row.start, row.count, row.at, int(row.is_private), first, last, crc32(events)


def _numbers_in(pack: Pack) -> tuple[int, ...]:
    return (
        pack.last, pack.queue, pack.state, pack.due_at, pack.attempts, pack.lease_no, pack.entered_at, pack.count,
        pack.remaining, pack.bytes, pack.start, pack.position, pack.turn,
    )  # fmt: skip


def _journal_step(row: JournalRow) -> Step:
    events = pack_runs(row.runs)
    values = (row.start, row.count, row.at, row.is_private, row.first_seq, row.last_seq, crc32(events), events)
    return Q.insert_journal, values


def _columns(rows: Iterable[Sequence[Any]]) -> list[str]:
    return [numbers(column) for column in zip(*rows, strict=True)]


def _insert_packs(packs: Sequence[Pack]) -> Step:
    return Q.insert_packs, [*_columns(map(_numbers_in, packs)), blobs(map(_gone_of, packs))]


def _change_packs(packs: Sequence[Pack]) -> Step:
    rows = [
        (p.last, p.state, p.due_at, p.attempts, p.lease_no, p.count, p.remaining, p.bytes, p.position, p.turn)
        for p in packs
    ]
    return Q.change_packs, [*_columns(rows), blobs(map(_gone_of, packs))]


def _gone_of(pack: Pack) -> bytes | None:
    gone = pack.gone
    return gone.to_bytes((gone.bit_length() + 7) // 8, "little") if gone else None


def _singles(changes: Changes) -> list[Step]:
    steps: list[Step] = []
    if changes.gone_singles:
        steps.append((Q.delete_singles, (numbers(single.seq for single in changes.gone_singles),)))
        if copied := [single.seq for single in changes.gone_singles if single.start is None]:
            steps.append((Q.delete_payloads, (numbers(copied),)))
    if changes.new_singles:
        steps.append(_insert_singles(list(changes.new_singles.values())))
    if changes.singles:
        states = [(s.seq, s.state, s.due_at, s.attempts, s.lease_no, s.turn) for s in changes.singles.values()]
        steps.append((Q.change_singles, _columns(states)))
    if changes.moved_singles:
        steps.append(_move_singles(list(changes.moved_singles.values())))
    return steps


def _insert_singles(singles: Sequence[Single]) -> Step:
    def column(name: str) -> str:
        return numbers(getattr(single, name) for single in singles)

    def texts(name: str) -> bytes:
        return blobs(_encoded(getattr(single, name)) for single in singles)

    return Q.insert_singles, [
        *map(column, ("seq", "queue", "state", "due_at", "attempts", "lease_no", "entered_at", "discard_at")),
        *map(column, ("sent_at", "delay_ms", "size", "given")),
        texts("id"), texts("content_type"), texts("attributes"), texts("group"), texts("trace"),
        column("origin"), texts("death"), column("start"), column("position"), column("turn"),
    ]  # fmt: skip


def _move_singles(singles: Sequence[Single]) -> Step:
    rows = [(s.seq, s.queue, s.state, s.due_at, s.attempts, s.lease_no, s.entered_at, s.discard_at) for s in singles]
    groups, deaths = blobs(_encoded(s.group) for s in singles), blobs(s.death for s in singles)
    return Q.move_singles, [*_columns(rows), groups, deaths, numbers(s.turn for s in singles)]


def _encoded(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _groups(changes: Changes) -> list[Step]:
    """A group is looked at right before its change is noted, so that what was sent to it since comes after that."""
    steps: list[Step] = []
    for change in changes.groups:
        group = change.group.encode()
        if change.head is None:
            steps.append((Q.delete_group, (change.queue, group)))
        else:
            steps.append((Q.put_group, (change.queue, group, change.head, change.due_at, change.leased, change.leased)))
    if changes.new_groups:
        keys, names, heads, dues = zip(*changes.new_groups, strict=True)
        encoded = blobs(name.encode() for name in names)
        steps.append((Q.add_groups, (numbers(keys), encoded, numbers(heads), numbers(dues))))
    steps += [(Q.lock_group, (count, queue, group.encode())) for count, queue, group in changes.locked_groups]
    return steps


def _dedups(dedups: Sequence[tuple[int, str, int, int, str]]) -> Step:
    keys, names, untils, seqs, ids = zip(*{row[:2]: row for row in dedups}.values(), strict=True)
    return Q.put_dedup, (
        numbers(keys), blobs(name.encode() for name in names), numbers(untils), numbers(seqs),
        blobs(id_.encode() for id_ in ids),
    )  # fmt: skip
