"""What damage looks like, the same in every engine."""

from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from couriermq.core.chronicle import unpack_runs
from couriermq.core.jumps import Jump, skip
from couriermq.core.lanes import lane_of
from couriermq.core.lifecycle.rows import Pack
from couriermq.core.model import Kind, Queue

MOST_FINDINGS = 20
NONE = (0, 0, 0, 0)
OLDER = "the data was written by an earlier version of Courier: not checked"
_seqs = msgspec.msgpack.Decoder(list[int]).decode


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at a store has found, one sentence each."""

    damage: list[str] = []
    set_aside: list[str] = []
    """Damage that the store has dealt with: no message waits in it, and everything else goes on."""
    not_checked: list[str] = []

    @property
    def all_damage(self) -> list[str]:
        return self.damage + self.set_aside

    @property
    def warnings(self) -> list[str]:
        """What somebody should know of data that can be used."""
        return self.set_aside + self.not_checked

    def of_part(self, name: str) -> "Findings":
        """The same, where each sentence names the part of the store that it is about."""
        fields = ([f"{name}: {one}" for one in found] for found in (self.damage, self.set_aside, self.not_checked))
        damage, set_aside, not_checked = fields
        return Findings(damage=damage, set_aside=set_aside, not_checked=not_checked)

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(
            damage=self.damage + other.damage,
            set_aside=self.set_aside + other.set_aside,
            not_checked=self.not_checked + other.not_checked,
        )


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
        self.damaged: list[int] = []
        """The starts of rows whose checksum is wrong."""
        self._oldest = oldest
        self._jumps = jumps
        self._expected: dict[int, int] = {}

    def add(self, start: int, count: int, blob: bytes, *, is_sound: bool) -> None:
        lane = lane_of(start)
        visible = lane in self._oldest and start >= self._oldest[lane]
        wrong = None
        if is_sound:
            wrong = commit_finding(self._expected.get(lane) if visible else None, start, count, blob)
        else:
            self.damaged.append(start)
        if wrong is not None and len(self.findings) < MOST_FINDINGS:
            self.findings.append(wrong)
        if visible and is_sound:
            self._expected[lane] = skip(self._jumps, start + count)
        else:  # what a damaged row says about its end is not to be believed
            self._expected.pop(lane, None)


def journal_findings(checks: Sequence[JournalCheck], waiting: Container[int]) -> Findings:
    """Messages wait in the rows `waiting`; the damage of others costs readers their events, and nothing else."""
    damaged = [start for check in checks for start in check.damaged]
    still_needed = [start for start in damaged if start in waiting]
    others = [start for start in damaged if start not in waiting]
    return Findings(
        damage=[*_damaged_at(still_needed), *(finding for check in checks for finding in check.findings)],
        set_aside=_damaged_at(others),
    )


def _damaged_at(starts: Sequence[int]) -> list[str]:
    return [f"the journal is damaged at offset {start}" for start in starts[:MOST_FINDINGS]]


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
