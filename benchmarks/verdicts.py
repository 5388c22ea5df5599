"""What a run says about each row: whether it meets its bar, and how its processor time compares with the best."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from benchmarks.measure import Row
from benchmarks.runs import TOLERANCE, Best


class Verdict(msgspec.Struct, frozen=True):
    """One row of this run against its bar and against its best run on this kind of machine."""

    row: str
    holds: bool | None
    """Whether the row meets its bar; None where it has none."""
    cpu_us: float | None
    reference_cpu_us: float | None
    best: Best | None

    @property
    def of_best(self) -> float | None:
        """Messages for a second of processor time, by those of the best run: 0.9 is 10 % below it."""
        if self.cpu_us is None or self.best is None:
            return None
        return self.best.cpu_us / self.cpu_us

    @property
    def below_best(self) -> bool:
        return self.of_best is not None and self.of_best < 1 - TOLERANCE

    @property
    def reference_of_best(self) -> float | None:
        """The same of the row's reference: where it fell as much, the machine has become slower."""
        if self.reference_cpu_us is None or self.best is None or self.best.reference_cpu_us is None:
            return None
        return self.best.reference_cpu_us / self.reference_cpu_us


def judge(rows: Iterable[Row], bests: Mapping[str, Best]) -> list[Verdict]:
    """A verdict on every row; `bests` come from the runs before this one."""
    return [Verdict(row.name, row.holds, row.cpu_us, row.reference_cpu_us, bests.get(row.name)) for row in rows]


def bar_sentence(verdict: Verdict) -> str:
    return {True: "holds", False: "missed", None: "no bar"}[verdict.holds]


def cpu_sentence(verdict: Verdict) -> str:
    """How the row's processor time compares, in words."""
    if verdict.cpu_us is None:
        return "not measured by CPU time"
    if verdict.best is None or verdict.of_best is None:
        return "no earlier figure on this kind of machine"
    change = verdict.of_best - 1
    if change >= 0:
        return f"a new best, {verdict.best.cpu_us:.4g} µs before ({verdict.best.commit})"
    sentence = f"{-change:.0%} below the best, {verdict.best.cpu_us:.4g} µs ({verdict.best.commit})"
    if verdict.below_best and verdict.reference_of_best is not None:
        sentence += f"; the reference has {verdict.reference_of_best:.2f} of its speed then"
    return sentence


def failed(verdicts: Iterable[Verdict]) -> bool:
    """Whether the run fails: a bar is missed. A row below its best is reported only, because machines vary."""
    return any(verdict.holds is False for verdict in verdicts)


def summary(verdicts: Sequence[Verdict]) -> str:
    """The verdict on the whole run."""
    missed = [verdict.row for verdict in verdicts if verdict.holds is False]
    below = [verdict.row for verdict in verdicts if verdict.below_best]
    return (
        f"Rows: {len(verdicts)}. Missed bars: {_names(missed)}."
        f" More than {TOLERANCE:.0%} below the best by CPU time: {_names(below)}."
    )


def _names(rows: Sequence[str]) -> str:
    return ", ".join(rows) or "none"
