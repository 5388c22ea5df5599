"""The arithmetic of the benchmarks."""

import itertools

from benchmarks.measure import Row, Turns, alternate


def test_a_ratio_is_taken_against_the_references_before_and_after() -> None:
    turns = Turns(reference=[100.0, 200.0, 100.0], others=[[75.0, 150.0]])
    assert turns.ratios() == [0.5, 1.0]


def test_probes_take_turns_after_one_that_is_thrown_away() -> None:
    clock = itertools.count()
    turns = alternate(lambda: float(next(clock)), [lambda: float(next(clock))], rounds=2)
    assert (turns.reference, turns.others) == ([2.0, 4.0, 6.0], [[3.0, 5.0]])


def _row(ratios: list[float], *, bar: float | None, at_least: bool = True) -> Row:
    return Row(name="", what="", value=0, unit="", reference="bare", ratios=ratios, bar=bar, at_least=at_least)


def test_a_bar_judges_the_median() -> None:
    assert _row([0.1, 0.6, 0.7], bar=0.5).holds is True
    assert _row([0.1, 0.4, 0.9], bar=0.5).holds is False


def test_a_bar_may_be_an_upper_limit_or_absent() -> None:
    assert _row([1.2], bar=1.3, at_least=False).holds is True
    assert _row([1.4], bar=1.3, at_least=False).holds is False
    assert _row([1.4], bar=None).holds is None
