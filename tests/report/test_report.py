"""The report: one page, from the tables alone, that shows what they hold."""

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from couriermq.cli.app import main
from couriermq.core.model import DAY, HOUR, MINUTE, SECOND
from couriermq.lake.tables import Lake
from couriermq.report.charts import Bar, Series, bars, lines, spark
from couriermq.report.figures import newest_minute, read_figures
from couriermq.report.page import write_page
from couriermq.report.scales import (
    MOST_POINTS,
    durations,
    linear,
    show_bytes,
    show_number,
    show_span,
    step_for,
    time_ticks,
)
from tests.support.lakes import commit, put

NOON = 1_700_049_600_000  # 2023-11-15T12:00:00Z
NASTY = "<script>alert('&\"')</script>"


def minute(n: int, *, queue: str = "orders", tenant: str = "default", **given: object) -> dict[str, object]:
    counts = dict.fromkeys(
        ("sent", "received", "acked", "released", "expired", "dead_lettered", "bytes", "backlog", "oldest_age_ms"), 0
    )
    return {"tenant": tenant, "queue": queue, "minute": NOON + n * MINUTE, **counts, **given}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two hours of two tenants; something of everything."""
    root = tmp_path / "lake"
    rows = [minute(n, sent=60, received=60, acked=50, backlog=10 * n, oldest_age_ms=5 * MINUTE) for n in range(120)]
    rows += [minute(n, queue=NASTY, tenant="acme", sent=1, backlog=7, released=2) for n in range(0, 120, 10)]
    rows += [minute(60, queue="idle", backlog=100, dead_lettered=3)]
    put(root, "queue_minutes", rows, folder="day=2023-11-15")
    acked = [
        {
            "tenant": "default",
            "queue": "orders",
            "outcome": "acked",
            "settled_at": NOON + n * SECOND,
            "time_to_ack_ms": n,
        }
        for n in range(1, 1_001)
    ]
    put(root, "messages", acked)
    put(root, "dead_letters", [{"reason": why, "died_at": NOON + MINUTE} for why in ("late", "late", NASTY)])
    timed = {"tenant": "acme", "minute": NOON, "attempts": 10, "failed": 1}
    put(
        root,
        "listener_minutes",
        [timed | {"listener": name, "latency_p95_ms": ms} for name, ms in (("a", 5.0), ("b", 900.0))],
    )
    usage = {"requests": 9, "messages": 5, "bytes": 2_048, "billable_units": 5}
    put(root, "tenant_usage", [usage | {"tenant": "acme", "day": day} for day in ("2023-11-14", "2023-11-15")])
    commit(root, 3, {0: 4_711})
    return Lake(root)


def test_the_figures_are_those_of_the_tables(lake: Lake) -> None:
    end = newest_minute(lake)
    assert end == NOON + 120 * MINUTE
    figures = read_figures(lake, end=end)
    assert (figures.span.step, len(figures.span.times)) == (MINUTE, 120)
    assert figures.totals["sent"] == 120 * 60 + 12
    assert figures.steps["sent"][10] == 61
    assert figures.backlog[0] == 0 + 7
    assert figures.backlog[-1] == 10 * 119 + 7 + 100
    assert figures.overall == pytest.approx((500.5, 950.5, 990.5), abs=3)
    assert figures.latency[0] == pytest.approx((30, 56.5, 59), abs=2)
    assert figures.latency[119] is None
    assert [(row.queue, row.backlog) for row in figures.queues] == [("orders", 1_190), (NASTY, 7), ("idle", 100)]
    assert figures.reasons == [("late", 2), (NASTY, 1)]
    assert [(row.listener, row.latency_p95_ms) for row in figures.listeners] == [("b", 900), ("a", 5)]
    assert [tuple(row) for row in figures.tenants] == [("acme", 5, 9, 2_048, 5)]
    assert figures.fresh is not None
    assert figures.fresh.offsets == {"0": 4_711}


def test_a_later_stretch_knows_what_was_waiting_before_it(lake: Lake) -> None:
    figures = read_figures(lake, start=NOON + 90 * MINUTE, end=NOON + 120 * MINUTE)
    assert figures.totals["sent"] == 30 * 60 + 3
    assert figures.backlog[0] == 900 + 7 + 100


class Reader(HTMLParser):
    """Notes what a page would load and run, and what it says."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [
            value or "" for name, value in attrs if name in {"src", "href", "srcset"} or name.startswith("on")
        ]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_needs_nothing_else_and_shows_names_as_they_are(lake: Lake) -> None:
    page = write_page(read_figures(lake, end=NOON + 2 * HOUR), title="Our shop", made_at=NOON)
    reader = Reader()
    reader.feed(page)
    assert reader.loads == []
    assert "script" not in reader.tags
    assert "url(" not in page
    assert NASTY in reader.text
    assert "67 %" in reader.text
    assert "e+" not in reader.text
    for words in ("Our shop", "Throughput", "Backlog", "Latency", "Dead letters by reason", "Slowest listeners"):
        assert words in reader.text
    assert "offset 4711" in reader.text
    assert "prefers-color-scheme: dark" in page
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == 4 + 3 + 3
    for drawing in drawings:
        ElementTree.fromstring(drawing)
        assert "aria-label" in drawing
        assert not re.search(r"\bnan\b", drawing, re.IGNORECASE)


def test_a_lake_with_one_table_and_one_minute_is_drawn_too(tmp_path: Path) -> None:
    put(tmp_path, "queue_minutes", [minute(0, sent=1)])
    page = write_page(read_figures(Lake(tmp_path), end=NOON + MINUTE), title="t", made_at=NOON)
    assert page.count("Nothing in this time.") == 4
    assert "Nothing says how far the tables go" in page


def test_the_command_writes_the_page_or_says_what_is_missing(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "report.html"
    assert main(["report", "--lake", str(lake.root), "--out", str(out), "--last", "30m"]) == 0
    assert "drew 2 queues into" in capsys.readouterr().out
    assert out.read_text().startswith("<!doctype html>")
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]
    assert main(["report", "--lake", str(tmp_path / "none"), "--out", str(out)]) == 1
    assert "fill it with `courier pipeline run`" in capsys.readouterr().err


# -- drawing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", [MINUTE, HOUR, DAY, 30 * DAY, 3_000 * DAY])
def test_time_is_cut_into_steps_that_fit(span: int) -> None:
    assert span / step_for(0, span) <= MOST_POINTS or span > 1_000 * DAY
    assert len(time_ticks(NOON, NOON + min(span, 600 * DAY))) <= 9


@pytest.mark.parametrize("values", [[], [0], [0.2], [3], [7, 99], [1_234_567]])
def test_an_axis_holds_every_value_and_has_round_marks(values: list[float]) -> None:
    scale = linear(values)
    assert all(0 <= scale.share(value) <= 1 for value in values)
    assert 2 <= len(scale.ticks) <= 6


@pytest.mark.parametrize("values", [[1], [0.5, 3], [250, 90_000], [3 * 7 * DAY], [400 * DAY]])
def test_durations_have_an_axis_of_their_own(values: list[float]) -> None:
    scale = durations(values)
    assert all(0 <= scale.share(value) <= 1 for value in values)


def test_a_line_has_a_hole_where_nothing_is_known() -> None:
    times = [NOON + n * MINUTE for n in range(5)]
    drawn = lines("x", times, [Series("a", "c1", [1, 2, None, 3, None])], linear([3]))
    assert drawn.count('class="line c1"') == 1
    assert drawn.count('class="dot c1"') == 1


def test_bars_and_sparks_are_drawn_of_nothing_too() -> None:
    for drawn in (bars("x", []), bars("x", [Bar("a", 0, "0")]), spark("x", [], "c1"), spark("x", [None, 0], "c1")):
        ElementTree.fromstring(drawn)


def test_numbers_are_written_for_a_glance() -> None:
    assert [show_number(n) for n in (0, 9, 0.25, 12.34, 9_999, 12_345, 1_234_567)] == [
        "0", "9", "0.25", "12.3", "9,999", "12.3k", "1.23M"
    ]  # fmt: skip
    assert [show_span(ms) for ms in (3, 1_500, 90_000, 5 * HOUR, 3 * DAY)] == ["3 ms", "1.5 s", "1.5 min", "5 h", "3 d"]
    assert [show_bytes(n) for n in (12, 2_048, 3 * 2**30)] == ["12 B", "2 KiB", "3 GiB"]
