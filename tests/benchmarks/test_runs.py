"""The history of benchmark runs, and what it says about a new one."""

from pathlib import Path

import pytest

from benchmarks import runs, verdicts
from benchmarks.machine import Machine, kind_of, processor_name
from benchmarks.measure import Row
from benchmarks.runs import Best, Figure, Run

MACHINE = Machine(
    kind="x86_64-2-cores-some-processor",
    cores=2,
    processor="Some Processor",
    memory_gib=8,
    system="Linux 6.1",
    python="3.11.7",
    sqlite="3.40.1",
    fdatasync_ms=0.4,
)


def _row(name: str = "send-32", *, cpu_us: float | None = 50.0, ratio: float = 0.5, bar: float | None = 0.4) -> Row:
    return Row(
        name=name,
        what="send one",
        value=12_345.678,
        unit="messages/s",
        reference="bare",
        ratios=[ratio],
        bar=bar,
        cpu_us=cpu_us,
        reference_cpu_us=20.0,
    )


def _run(cpu_us: float | None, *, commit: str = "aaa", dirty: bool = False, name: str = "send-32") -> Run:
    figure = Figure(row=name, value=1.0, unit="messages/s", ratio=0.5, low=0.5, high=0.5, cpu_us=cpu_us)
    return Run(at="2026-01-01T00:00:00+00:00", commit=commit, dirty=dirty, machine=MACHINE, rounds=7, figures=[figure])


def _verdict(cpu_us: float | None, best: Best | None) -> verdicts.Verdict:
    return verdicts.judge([_row(cpu_us=cpu_us)], {} if best is None else {"send-32": best})[0]


def test_runs_that_were_appended_are_read_in_order(tmp_path: Path) -> None:
    first, second = _run(50.0, commit="aaa"), _run(40.0, commit="bbb")
    runs.append(first, tmp_path)
    path = runs.append(second, tmp_path)
    assert runs.read(MACHINE.kind, tmp_path) == [first, second]
    assert path.read_bytes().count(b"\n") == 2


def test_another_kind_of_machine_has_another_history(tmp_path: Path) -> None:
    runs.append(_run(50.0), tmp_path)
    assert runs.read("aarch64-8-cores-another", tmp_path) == []


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = runs.append(_run(50.0), tmp_path)
    with path.open("a") as file:
        file.write("<<<<<<< mine\n")
    with pytest.raises(SystemExit, match=r"line 2 of x86_64-2-cores-some-processor\.jsonl"):
        runs.read(MACHINE.kind, tmp_path)


def test_a_figure_keeps_four_digits_the_ratio_and_the_processor_time() -> None:
    figure = runs.figure_of(_row(cpu_us=50.12345))
    assert (figure.value, figure.ratio, figure.cpu_us, figure.holds) == (12_350.0, 0.5, 50.12, True)


def test_a_run_says_its_commit_and_names_no_path() -> None:
    run = runs.new_run([_row()], MACHINE, rounds=5)
    assert (run.rounds, [figure.row for figure in run.figures]) == (5, ["send-32"])
    assert "/" not in run.commit + run.machine.kind


def test_the_best_run_is_that_with_the_least_processor_time() -> None:
    found = [_run(50.0, commit="aaa"), _run(40.0, commit="bbb", dirty=True), _run(45.0, commit="ccc")]
    assert runs.bests(found) == {"send-32": Best(40.0, None, "bbb+")}


def test_a_row_without_processor_time_has_no_best() -> None:
    assert runs.bests([_run(None, name="memory")]) == {}


@pytest.mark.parametrize(("cpu_us", "below"), [(44.4, False), (44.5, True), (30.0, False)])
def test_a_row_is_reported_when_it_is_more_than_a_tenth_below_its_best(cpu_us: float, below: bool) -> None:
    assert _verdict(cpu_us, Best(40.0, 20.0, "bbb")).below_best is below


def test_a_verdict_says_how_much_is_lost_since_when_and_whether_the_machine_is_slower() -> None:
    sentence = verdicts.cpu_sentence(_verdict(80.0, Best(40.0, 10.0, "bbb")))
    assert sentence == "50% below the best, 40 µs (bbb); the reference has 0.50 of its speed then"


@pytest.mark.parametrize(
    ("cpu_us", "best", "sentence"),
    [
        (50.0, None, "no earlier figure on this kind of machine"),
        (None, None, "not measured by CPU time"),
        (30.0, Best(40.0, None, "bbb"), "a new best, 40 µs before (bbb)"),
        (42.0, Best(40.0, 1.0, "bbb"), "5% below the best, 40 µs (bbb)"),
    ],
)
def test_every_row_has_a_sentence(cpu_us: float | None, best: Best | None, sentence: str) -> None:
    assert verdicts.cpu_sentence(_verdict(cpu_us, best)) == sentence


def test_a_missed_bar_fails_the_run_and_a_row_below_its_best_does_not() -> None:
    best = {"send-32": Best(10.0, None, "bbb")}
    slow = verdicts.judge([_row()], best)
    missed = verdicts.judge([_row(ratio=0.39), _row("drain-100", bar=None)], {})
    assert (verdicts.failed(slow), verdicts.failed(missed)) == (False, True)


def test_the_summary_names_rows_that_missed_and_rows_that_fell() -> None:
    rows = [_row(), _row("send-128", ratio=0.1), _row("memory", cpu_us=None)]
    judged = verdicts.judge(rows, {"send-32": Best(10.0, None, "bbb")})
    assert verdicts.summary(judged) == (
        "Rows: 3. Missed bars: send-128. More than 10% below the best by CPU time: send-32."
    )


def test_the_summary_says_none_where_all_is_well() -> None:
    assert verdicts.summary(verdicts.judge([_row()], {})) == (
        "Rows: 1. Missed bars: none. More than 10% below the best by CPU time: none."
    )


def test_the_kind_of_a_machine_is_a_file_name() -> None:
    kind = kind_of("x86_64", 2, "Intel(R) Xeon(R) Processor @ 2.10GHz")
    assert kind == "x86_64-2-cores-intel-xeon-processor-2.10ghz"


def test_a_processor_is_named_by_its_model_where_there_is_one() -> None:
    assert processor_name("processor : 0\nmodel name\t: Fast One\n\nmodel name\t: Fast One\n") == "Fast One"
    assert processor_name("processor : 0\n") == "unknown processor"
