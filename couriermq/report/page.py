"""The figures as one page of HTML that needs nothing else: no script, no font, no network."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from couriermq.report.charts import Bar, Series, bars, lines, spark
from couriermq.report.figures import Figures, QueueRow
from couriermq.report.scales import (
    durations,
    linear,
    show_bytes,
    show_moment,
    show_number,
    show_span,
)

CSS = Path(__file__).with_name("page.css")
NOTHING = '<p class="none">Nothing in this time.</p>'


def write_page(figures: Figures, *, title: str, made_at: int) -> str:
    return _document(
        title,
        _header(figures, title),
        _tiles(figures),
        '<div class="grid">',
        _throughput(figures),
        _backlog(figures),
        _latency(figures),
        _failures(figures),
        _queues(figures),
        '</div><div class="grid three">',
        _reasons(figures),
        _listeners(figures),
        _tenants(figures),
        "</div>",
        f"<footer>{escape(_freshness(figures))} Made at {show_moment(made_at)}.</footer>",
    )


def _document(title: str, *parts: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>\n{CSS.read_text()}</style></head>\n<body><main>\n"
        + "\n".join(parts)
        + "\n</main></body></html>\n"
    )


def _header(figures: Figures, title: str) -> str:
    span = figures.span
    words = f"{show_moment(span.start)} to {show_moment(span.end)} · a point is {show_span(span.step)}"
    return f"<header><h1>{escape(title)}</h1><p>{escape(words)}</p></header>"


def _freshness(figures: Figures) -> str:
    if figures.fresh is None:
        return "Nothing says how far the tables go."
    offsets = ", ".join(str(offset) for _, offset in sorted(figures.fresh.offsets.items()))
    return f"From the lake's tables, which hold every event before offset {offsets}."


# -- numbers --------------------------------------------------------------------------------------------------


def _tiles(figures: Figures) -> str:
    totals, seconds = figures.totals, max((figures.span.end - figures.span.start) / 1_000, 1)
    oldest = figures.oldest_age_ms
    dead = totals["dead_lettered"]
    tiles = [
        _tile(show_number(totals["sent"]), f"sent, {show_number(totals['sent'] / seconds)} a second"),
        _tile(show_number(totals["acked"]), "acked"),
        _tile(show_number(figures.backlog[-1]), "waiting at the end"),
        _tile("–" if oldest is None else show_span(oldest), "age of the oldest waiting"),
        _tile(show_span(figures.overall[1]) if figures.overall else "–", "from sent to acked, 95th percentile"),
        _tile(show_number(dead), f"dead letters, {_share(dead, totals['sent'])} of sent", warn=dead > 0),
    ]
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _tile(number: str, words: str, *, warn: bool = False) -> str:
    return f'<div class="tile{" warn" if warn else ""}"><b>{escape(number)}</b><span>{escape(words)}</span></div>'


def _share(part: float, whole: float) -> str:
    share = 100 * part / whole if whole else 0
    return f"{share:.0f} %" if share >= 10 or not share else f"{share:.2g} %"


# -- lines ----------------------------------------------------------------------------------------------------


def _throughput(figures: Figures) -> str:
    seconds = figures.span.step / 1_000
    rates = {name: [value / seconds for value in values] for name, values in figures.steps.items()}
    names = (("sent", "c1"), ("received", "c5"), ("acked", "c2"))
    series = [Series(name, colour, _whole(rates[name])) for name, colour in names]
    return _lines(figures, "Throughput", "messages a second", series)


def _whole(values: Sequence[float]) -> list[float | None]:
    """Without the last step, which has only begun: it would look as if everything had just ended."""
    return [*values[:-1], None] if len(values) > 2 else list(values)


def _backlog(figures: Figures) -> str:
    series = [Series("waiting", "c3", figures.backlog)]
    return _lines(figures, "Backlog", "messages in all queues at the end of each point", series, filled=True)


def _failures(figures: Figures) -> str:
    series = [
        Series("given back", "c3", _whole(figures.steps["released"])),
        Series("lease expired", "c6", _whole(figures.steps["expired"])),
        Series("dead letters", "c4", _whole(figures.steps["dead_lettered"])),
    ]
    return _lines(figures, "Failures", "in each point", series)


def _latency(figures: Figures) -> str:
    names = (("median", "c2"), ("95th percentile", "c1"), ("99th", "c5"))
    series = [
        Series(name, colour, [None if step is None else max(step[index], 1.0) for step in figures.latency])
        for index, (name, colour) in enumerate(names)
    ]
    values = [value for one in series for value in one.values if value is not None]
    if not values:
        return _section("Latency", "from sent to acked", NOTHING)
    chart = lines("Latency from sent to acked", figures.span.times, series, durations(values), show=show_span)
    return _section("Latency", "from sent to acked", chart, _legend(series))


def _lines(figures: Figures, title: str, hint: str, series: Sequence[Series], *, filled: bool = False) -> str:
    values = [value for one in series for value in one.values if value is not None]
    chart = lines(f"{title}: {hint}", figures.span.times, series, linear(values), filled=filled)
    return _section(title, hint, chart, _legend(series) if len(series) > 1 else "")


def _legend(series: Sequence[Series]) -> str:
    items = "".join(f'<span class="{one.colour}"><i></i>{escape(one.name)}</span>' for one in series)
    return f'<div class="legend">{items}</div>'


def _section(title: str, hint: str, content: str, legend: str = "", *, wide: bool = False) -> str:
    return (
        f'<section{" class=wide" if wide else ""}><div class="head"><h2>{escape(title)}'
        f' <span class="hint" style="font-weight:400">{escape(hint)}</span></h2>{legend}</div>{content}</section>'
    )


# -- rows -----------------------------------------------------------------------------------------------------


def _queues(figures: Figures) -> str:
    titles = ("queue", "sent over time", "sent", "acked", "failed", "dead", "waiting", "oldest", "p95")
    head = "".join(f"<th{' class=spark' if title == 'sent over time' else ''}>{title}</th>" for title in titles)
    rows = "".join(map(_queue, figures.queues))
    hidden = figures.queue_count - len(figures.queues)
    hint = "by traffic" + (f"; {hidden} more are not shown" if hidden else "")
    table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return _section("Busiest queues", hint, table, wide=True)


def _queue(row: QueueRow) -> str:
    counts, name = row.counts, f"{row.tenant}/{row.queue}"
    dead = counts["dead_lettered"]
    cells = [
        f"<td>{escape(row.queue)} <small>{escape(row.tenant)}</small></td>",
        f'<td class="spark">{spark(f"{name}: sent over time", row.sent[:-1] or row.sent, "c1")}</td>',
        *(f"<td>{show_number(value)}</td>" for value in (counts["sent"], counts["acked"])),
        f"<td>{show_number(counts['released'] + counts['expired'])}</td>",
        f"<td{' class=bad' if dead else ''}>{show_number(dead)}</td>",
        f"<td>{show_number(row.backlog)}</td>",
        f"<td>{show_span(row.oldest_age_ms) if row.oldest_age_ms is not None else '–'}</td>",
        f"<td>{show_span(row.latency_p95_ms) if row.latency_p95_ms is not None else '–'}</td>",
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _reasons(figures: Figures) -> str:
    total = sum(count for _, count in figures.reasons)
    rows = [Bar(reason, n, f"{show_number(n)} · {_share(n, total)}", "c4") for reason, n in figures.reasons]
    return _section("Dead letters by reason", "", bars("Dead letters by reason", rows) if rows else NOTHING)


def _listeners(figures: Figures) -> str:
    rows = [
        Bar(
            f"{row.tenant}/{row.listener}",
            row.latency_p95_ms,
            f"{show_span(row.latency_p95_ms)} · {_share(row.failed, row.attempts)} failed",
            "c5",
        )
        for row in figures.listeners
    ]
    hint = "95th percentile"
    return _section("Slowest listeners", hint, bars("Slowest listeners", rows) if rows else NOTHING)


def _tenants(figures: Figures) -> str:
    rows = [
        Bar(row.tenant, row.messages, f"{show_number(row.messages)} · {show_bytes(row.bytes)}", "c2")
        for row in figures.tenants
    ]
    hint = "by messages"
    return _section("Top tenants", hint, bars("Top tenants", rows) if rows else NOTHING)
