"""Who holds leased messages: the journal's last word about each of them."""

import asyncio
from collections.abc import Sequence

import msgspec

from couriermq.core.chronicle import Commit, unpack_runs
from couriermq.core.errors import OffsetGone
from couriermq.core.events import EventKind
from couriermq.journal.history import History, Past
from couriermq.storage.base import Span

LOOK_COUNT = 100_000
"""Events of each lane that are looked at, the newest."""
STEP = 10_000


class Holder(msgspec.Struct, frozen=True):
    """Who has received a message last, and when."""

    principal: str | None
    since: int


async def holders_of(history: History, queue_id: str, seqs: Sequence[int]) -> dict[int, Holder]:
    """By the seqs of messages; one whose lease is older than the events that are looked at is left out."""
    found: dict[int, Holder] = {}
    for past in history.pasts:
        for span in (await past.log.spans()).values():
            for seq, holder in (await _among(past, span, queue_id, set(seqs))).items():
                if seq not in found or found[seq].since < holder.since:
                    found[seq] = holder
    return found


async def _among(past: Past, span: Span, queue_id: str, wanted: set[int]) -> dict[int, Holder]:
    stop, floor = span.next, max(span.oldest, span.next - LOOK_COUNT)
    found: dict[int, Holder] = {}
    while stop > floor and len(found) < len(wanted):
        start = max(floor, stop - STEP)
        later, offset = found, start
        found = {}
        while offset < stop:
            try:
                commits = await past.log.read_commits(start=offset, limit=stop - offset)
            except OffsetGone:  # trimmed in this moment, and so is all that is older
                return later
            if not commits:
                break
            found |= await asyncio.to_thread(_received, commits, queue_id, wanted)
            offset = commits[-1].start + commits[-1].count
        found |= later
        stop = start
    return found


def _received(commits: Sequence[Commit], queue_id: str, wanted: set[int]) -> dict[int, Holder]:
    found = {}
    for commit in commits:
        for run in unpack_runs(commit.events):
            if run.kind == EventKind.RECEIVED and run.queue_id == queue_id:
                for seq, at in zip(run.seqs, run.ats, strict=True):
                    if seq in wanted and seq is not None:
                        found[seq] = Holder(run.principal, at)
    return found
