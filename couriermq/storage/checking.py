"""What damage looks like, the same in every engine."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from couriermq.core.chronicle import unpack_runs
from couriermq.core.jumps import Jump, skip
from couriermq.core.lanes import lane_of
from couriermq.core.lifecycle.rows import Pack
from couriermq.core.model import Kind, Queue

MOST_FINDINGS = 20
NONE = (0, 0, 0, 0)
_seqs = msgspec.msgpack.Decoder(list[int]).decode


def commit_finding(expected: int | None, start: int, count: int, blob: bytes) -> str | None:
    """What is wrong with the journal's commit that begins at `start`, where `expected` should; None if nothing is."""
    if expected is not None and start != expected:
        return f"the journal has a gap: offset {expected} is missing, the next is {start}"
    try:
        runs = unpack_runs(blob)
    except (msgspec.DecodeError, ValueError):  # a text that is not UTF-8 is a ValueError
        runs = None
    if runs is None or not all(run.is_whole for run in runs):
        return f"the journal cannot be read at offset {start}"
    held = sum(map(len, runs))
    if held != count:
        return f"the journal's commit at offset {start} holds {held} events instead of {count}"
    return None


class JournalCheck:
    """Takes journal rows by their offsets: finds damage in all, and gaps in what readers see of each lane."""

    def __init__(self, oldest: Mapping[int, int], jumps: Sequence[Jump] = ()) -> None:
        """`oldest`: by lane, the oldest offset that readers see; rows of other lanes are only kept for their bodies."""
        self.findings: list[str] = []
        self._oldest = oldest
        self._jumps = jumps
        self._expected: dict[int, int] = {}

    def add(self, start: int, count: int, blob: bytes, *, is_sound: bool) -> None:
        lane = lane_of(start)
        visible = lane in self._oldest and start >= self._oldest[lane]
        if is_sound:
            wrong = commit_finding(self._expected.get(lane) if visible else None, start, count, blob)
        else:
            wrong = f"the journal is damaged at offset {start}"
        if wrong is not None and len(self.findings) < MOST_FINDINGS:
            self.findings.append(wrong)
        if visible and is_sound:
            self._expected[lane] = skip(self._jumps, start + count)
        else:  # what a damaged row says about its end is not to be believed
            self._expected.pop(lane, None)


class PackCheck:
    """Takes packs by their last seqs: finds those that do not add up or that overlap."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self._end = 0

    def add(self, pack: Pack) -> None:
        adds_up = len(pack.indexes()) == pack.remaining > 0 and pack.first > self._end
        if not adds_up and len(self.findings) < MOST_FINDINGS:
            self.findings.append(f"the pack of messages {pack.first} to {pack.last} does not add up")
        self._end = pack.last


def tally_findings(stored: Mapping[int, Sequence[int]], counted: Mapping[int, Sequence[int]]) -> list[str]:
    """Queues whose figures (ready, delayed, leased, bytes) are not what they hold."""
    return [
        f"queue {key} counts {list(stored.get(key, NONE))} (ready, delayed, leased, bytes)"
        f" but holds {list(counted.get(key, NONE))}"
        for key in sorted(counted.keys() | stored.keys())
        if tuple(stored.get(key, NONE)) != tuple(counted.get(key, NONE))
    ]


def added_up(rows: Iterable[Sequence[int]]) -> dict[int, tuple[int, ...]]:
    """Figures by queue, from rows of (queue, figures…)."""
    sums: dict[int, tuple[int, ...]] = {}
    for key, *figures in rows:
        sums[key] = tuple(one + other for one, other in zip(sums.get(key, NONE), figures, strict=True))
    return sums


def body_findings(*, missing: int, damaged: int, orphaned: int) -> list[str]:
    findings = [f"{missing} messages have lost their bodies"] if missing else []
    findings += [f"the bodies of {damaged} messages are damaged"] if damaged else []
    return findings + ([f"{orphaned} bodies belong to no message"] if orphaned else [])


def group_findings(wrong: int) -> list[str]:
    return [f"{wrong} FIFO groups do not agree with their messages"] if wrong else []


def claim_findings(parts: Iterable[bytes], seqs: Iterable[int], packs: Iterable[Pack]) -> list[str]:
    """A message that is leased without end and belongs to no part of a claim would never come back."""
    leased = {*seqs, *(seq for pack in packs for seq in pack.seqs())}
    for part in parts:
        leased.difference_update(_seqs(part))
    return [f"{len(leased)} messages are held by a claim that is not there"] if leased else []


def quarantine_findings(rows: Iterable[tuple[int, int]]) -> list[str]:
    """Messages that a server has set aside, from rows of (queue, how many)."""
    return [f"{count} messages of queue {queue} were damaged and are set aside" for queue, count in rows]


def fifo_keys(documents: Iterable[bytes]) -> list[int]:
    """The keys of the FIFO queues among these records."""
    queues = (msgspec.msgpack.decode(document, type=Queue) for document in documents)
    return [queue.key for queue in queues if queue.kind is Kind.FIFO]
