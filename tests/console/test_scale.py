"""Very many queues: a page draws the rows in sight."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from playwright.sync_api import Page, expect

from tests.console.support import Console
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

QUEUES = 10_000
CLIENTS = 8
ROWS = 60
"""Rows of a table that may be in the document: those in sight, and a few above and below."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("scale")) as server:
        create_queues(server, QUEUES)
        yield server


def create_queues(server: ServerProcess, count: int) -> None:
    def create(numbers: range) -> None:
        with server.session as session:
            for number in numbers:
                url = f"{server.url}/courier/v1/tenants/default/queues"
                response: requests.Response = session.post(url, json={"name": f"queue-{number:05}"}, timeout=60)
                assert response.ok, response.text

    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(create, [range(first, count, CLIENTS) for first in range(CLIENTS)]))


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


def drawn_rows(page: Page) -> int:
    return page.get_by_role("row").count()
