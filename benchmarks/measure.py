"""Ratios that hold on a noisy machine: short turns, again and again, each judged by its neighbours."""

from collections.abc import Callable, Sequence
from statistics import mean, median

import msgspec

Probe = Callable[[], float]
"""Measures something once; returns how much a second, or how long."""


class Row(msgspec.Struct, kw_only=True):
    """One line of the report; the bar judges the median of the ratios."""

    name: str
    what: str
    value: float
    unit: str
    reference: str
    """What the ratio is taken against."""
    ratios: list[float]
    """One a round; a row without a reference holds the figure itself."""
    bar: float | None = None
    at_least: bool = True
    """Whether the ratio must reach the bar, or stay below it."""
    per_bare: float | None = None
    """The ratio to the bare server, where the reference is another."""
    cpu_ratio: float | None = None
    """The same ratio by processor time for each message, where it was measured."""
    cpu_us: float | None = None
    """Processor time for each message (or event), all threads and all processes that are measured."""
    reference_cpu_us: float | None = None
    """The same of the reference in this run: it shows whether the machine or the program became slower."""
    notes: dict[str, float] = {}

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def holds(self) -> bool | None:
        if self.bar is None:
            return None
        return self.ratio >= self.bar if self.at_least else self.ratio <= self.bar


class Turns(msgspec.Struct, frozen=True):
    """What alternating rounds measured: the reference once more than the others."""

    reference: list[float]
    others: list[list[float]]

    def ratios(self, index: int = 0) -> list[float]:
        """Each figure of one probe by the mean of the reference before and after it."""
        neighbours = zip(self.reference, self.reference[1:], strict=False)
        return [figure / mean(pair) for figure, pair in zip(self.others[index], neighbours, strict=True)]

    def figure(self, index: int = 0) -> float:
        return median(self.others[index])


def alternate(reference: Probe, others: Sequence[Probe], *, rounds: int) -> Turns:
    """Reference, others, reference, others, …, reference; a first turn of each is thrown away."""
    for probe in (reference, *others):
        probe()
    turns = Turns(reference=[], others=[[] for _ in others])
    for _ in range(rounds):
        turns.reference.append(reference())
        for figures, probe in zip(turns.others, others, strict=True):
            figures.append(probe())
    turns.reference.append(reference())
    return turns
