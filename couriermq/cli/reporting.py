"""`courier report`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from couriermq.cli.connection import Output
from couriermq.cli.data import LakePlace, lake_directory
from couriermq.cli.exits import Failure
from couriermq.cli.options import Duration
from couriermq.cli.quantities import show_count, show_size
from couriermq.cli.screen import Screen
from couriermq.clock import SystemClock
from couriermq.lake.tables import QUEUE_MINUTES, Lake

OUT = Path("report.html")
TITLE = "Courier report"


def report(
    *,
    out: Annotated[Path, Parameter(metavar="FILE")] = OUT,
    last: Duration | None = None,
    title: str = TITLE,
    lake: LakePlace = None,
    json: Output = False,
) -> None:
    """Draw one page of HTML from the lake's tables: throughput, backlog, latency, failures, listeners, tenants.

    Parameters
    ----------
    out
        The file to write; it needs no other.
    last
        Only the newest stretch of what the tables hold, such as 6h or 7d.
    title
        What stands above it.
    """
    from couriermq.report.figures import newest_minute, read_figures  # noqa: PLC0415 - loads pyarrow
    from couriermq.report.page import write_page  # noqa: PLC0415

    screen, tables = Screen(json=json), Lake(lake_directory(lake))
    end = newest_minute(tables)
    if end is None:
        raise Failure(f"{tables.root / QUEUE_MINUTES} holds nothing yet; fill it with `courier pipeline run`")
    with screen.busy("drawing"):
        figures = read_figures(tables, start=None if last is None else end - last, end=end)
        page = write_page(figures, title=title, made_at=SystemClock().now())
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f".{out.name}.part")
    draft.write_text(page, encoding="utf-8")
    draft.replace(out)
    size, queues = len(page.encode()), show_count(figures.queue_count, "queue")
    document = {"report": str(out), "byte_count": size, "queues": figures.queue_count, "until": end}
    screen.tell(document, f"drew {queues} into {out} ({show_size(size)})")
