"""What a transaction has changed, as the parameters of the statements that write it."""

from collections.abc import Iterable, Sequence
from typing import Any

from couriermq.core.chronicle import Chronicle
from couriermq.storage.postgres.arrays import blobs, numbers, truths
from couriermq.storage.postgres.link import Step
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.rows import Row

MOST_EVENTS = 5_000
"""In one row of the journal."""


def journal(events: Chronicle) -> dict[str, Any]:
    """A row for the events of a commit; of a very large commit several."""
    parts = list(events.parts(MOST_EVENTS))
    return {
        "counts": numbers(count for count, _, _ in parts),
        "ats": numbers(at for _, at, _ in parts),
        "events": blobs(packed for _, _, packed in parts),
    }


FIGURES = ("keys", "ready", "delayed", "leased", "bytes", "sent", "acked", "dead")


def columns(names: Sequence[str], rows: Sequence[tuple[int, ...]]) -> dict[str, str]:
    if not rows:
        return dict.fromkeys(names, "{}")
    return {name: numbers(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def states(rows: Iterable[Row]) -> dict[str, str]:
    facts = [(row.seq, int(row.state), row.due_at, row.attempts, row.lease_no) for row in rows]
    return columns(("seqs", "states", "due_ats", "attempts", "lease_nos"), facts)


def transfers(rows: Iterable[Row]) -> dict[str, Any]:
    chosen = list(rows)
    return {
        **states(chosen),
        "queues": numbers(row.queue for row in chosen),
        "entered_ats": numbers(row.entered_at for row in chosen),
        "grps": blobs(row.grp for row in chosen),
        "deaths": blobs(row.death for row in chosen),
    }


NEW = (
    "seqs", "queues", "states", "sizes", "due_ats", "entered_ats", "discard_ats", "origins", "givens", "ids", "grps",
    "contents", "attempts", "lease_nos", "deaths",
)  # fmt: skip
"""What a new message of its own consists of."""
_WRITERS = (
    dict.fromkeys(NEW, numbers) | dict.fromkeys(("ids", "grps", "contents", "deaths"), blobs) | {"givens": truths}
)


def whole(row: Row) -> tuple[Any, ...]:
    return (
        row.seq, row.queue, int(row.state), row.size, row.due_at, row.entered_at, row.discard_at, row.origin, False,
        row.id.encode(), row.grp, row.content, row.attempts, row.lease_no, row.death,
    )  # fmt: skip


def new(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    return {name: _WRITERS[name](column) for name, column in zip(NEW, zip(*rows, strict=True), strict=True)}


def memories(dedup: dict[tuple[int, bytes], tuple[int, int, bytes]]) -> dict[str, Any]:
    return {
        "keys": numbers(key for key, _ in dedup),
        "dedup_ids": blobs(dedup_id for _, dedup_id in dedup),
        "until_ats": numbers(until_at for until_at, _, _ in dedup.values()),
        "seqs": numbers(seq for _, seq, _ in dedup.values()),
        "ids": blobs(message_id for _, _, message_id in dedup.values()),
    }


def groups(groups: dict[tuple[int, bytes], int]) -> list[Step]:
    where = {"keys": numbers(key for key, _ in groups), "grps": blobs(grp for _, grp in groups)}
    return [(Q.drop_groups, where), (Q.refresh_groups, {**where, "leased": numbers(groups.values())})]
