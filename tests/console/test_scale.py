"""Very many queues: a page draws the rows in sight."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from couriermq.storage.sqlite.store import SqliteStore
from tests.console.support import Console
from tests.support.engines import Rig
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

QUEUES = 10_000
ROWS = 60
"""Rows of a table that may be in the document: those in sight, and a few above and below."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = tmp_path_factory.mktemp("scale") / "data"
    with ThreadPoolExecutor(1) as other:  # a browser has the event loop of this thread
        other.submit(asyncio.run, create_queues(data, QUEUES)).result()
    with start_server(data.parent, data=data) as server:
        yield server


async def create_queues(data: Path, count: int) -> None:
    """In the store itself: over HTTP this takes longer than all that is tested."""
    rig = Rig(lambda: SqliteStore(data, min_free_bytes=0, sync=lambda _: None))
    await rig.open()
    for number in range(count):
        await rig.create(f"queue-{number:05}")
    await rig.close()


def test_ten_thousand_queues_are_a_table_of_few_rows(console: Console) -> None:
    page = console.open("queues").page
    table = page.get_by_role("table", name="Queues")
    expect(table).to_have_attribute("aria-rowcount", str(QUEUES + 1))
    row = page.get_by_role("row").filter(has_text="queue-00003")
    expect(row.get_by_role("cell").nth(2)).to_have_text("0")
    console.send("queue-00003")
    expect(row.get_by_role("cell").nth(2)).to_have_text("1")
    assert drawn_rows(page) <= ROWS


def test_scrolling_reads_on_and_draws_no_more_rows(console: Console) -> None:
    page = console.open("queues").page
    expect(page.get_by_text("queue-00000")).to_be_visible()
    for name in ("queue-00200", "queue-00400", "queue-00600"):
        page.get_by_role("region", name="Queues").evaluate("box => box.scrollTo(0, box.scrollHeight)")
        expect(page.get_by_text(name)).to_be_attached()
        assert drawn_rows(page) <= ROWS
    row = page.get_by_role("row").filter(has_text="queue-00603")
    expect(row.get_by_role("cell").nth(2)).to_have_text("0")
    console.send("queue-00603")
    expect(row.get_by_role("cell").nth(2)).to_have_text("1")
    page.get_by_role("region", name="Queues").evaluate("box => box.scrollTo(0, 0)")
    expect(page.get_by_text("queue-00000")).to_be_visible()
    console.send("queue-00001")
    first = page.get_by_role("row").filter(has_text="queue-00001")
    expect(first.get_by_role("cell").nth(2)).to_have_text("1")


def drawn_rows(page: Page) -> int:
    return page.get_by_role("row").count()
