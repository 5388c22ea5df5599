"""The tables that people read: the figures of a run, and the verdict on every row."""

from rich.console import Console
from rich.table import Table

from benchmarks.machine import Machine
from benchmarks.measure import Row
from benchmarks.verdicts import Verdict, bar_sentence, cpu_sentence, summary

FIGURES = ("row", "what", "figure", "against", "ratio", "spread", "by CPU", "bar", "")
VERDICTS = ("row", "bar", "CPU/message", "against the best run")
RIGHT = {"figure", "ratio", "by CPU", "CPU/message"}
COLOURS = {True: "green", False: "red", None: "dim"}


def show_rows(console: Console, rows: list[Row], machine: Machine, *, rounds: int) -> None:
    """Print every row with its bar."""
    caption = (
        f"{machine.cores} cores ({machine.processor}), Python {machine.python}, SQLite {machine.sqlite}, "
        f"fdatasync {machine.fdatasync_ms:.2f} ms; medians of {rounds} rounds"
    )
    table = _table("Courier benchmarks", FIGURES, caption)
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)


def show_verdicts(console: Console, verdicts: list[Verdict]) -> None:
    """Print what this run says about every row, and then about all of them."""
    table = _table("Verdicts", VERDICTS, None)
    for verdict in verdicts:
        cpu = "" if verdict.cpu_us is None else f"{verdict.cpu_us:.4g} µs"
        sentence = cpu_sentence(verdict)
        table.add_row(
            verdict.row,
            f"[{COLOURS[verdict.holds]}]{bar_sentence(verdict)}[/]",
            cpu,
            f"[red]{sentence}[/]" if verdict.below_best else sentence,
        )
    console.print(table)
    console.print(summary(verdicts), soft_wrap=True)


def _table(title: str, columns: tuple[str, ...], caption: str | None) -> Table:
    table = Table(title=title, caption=caption, box=None, pad_edge=False, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in RIGHT else "left", no_wrap=column != "what")
    return table


def _cells(row: Row) -> tuple[str, ...]:
    sign = "≥" if row.at_least else "≤"
    per_bare = "" if row.per_bare is None else f" ({row.per_bare:.2f} of bare)"
    return (
        row.name,
        row.what,
        f"{_number(row.value)} {row.unit}",
        row.reference + per_bare,
        f"{row.ratio:.2f}",
        f"{min(row.ratios):.2f}–{max(row.ratios):.2f}",
        "" if row.cpu_ratio is None else f"{row.cpu_ratio:.2f}",
        "" if row.bar is None else f"{sign} {row.bar:g}",
        {True: "[green]holds[/]", False: "[red]missed[/]", None: ""}[row.holds],
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
