"""`console_hide_bodies`: a body is in the page only after somebody has asked for it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.console.support import Console
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("hidden"), console_hide_bodies=True) as server:
        yield server


def test_a_body_is_shown_after_a_click(console: Console) -> None:
    queue, page = console.queue(), console.page
    sent = console.send(queue, body="patient 4711")
    console.open("queues", queue, "messages", seq=str(sent["seq"]))
    expect_hidden(page)
    page.get_by_label("Message", exact=True).get_by_role("button", name="Show").click()
    expect(page.get_by_label("Message", exact=True).locator("pre")).to_have_text("patient 4711")


def test_a_page_of_one_message_hides_it_in_every_place(console: Console) -> None:
    queue, page = console.queue(), console.page
    sent = console.send(queue, body="patient 4711")
    console.open("messages", sent["id"], queue=queue).say("As each client sees it")
    expect_hidden(page)
    panel = page.get_by_role("tabpanel")
    expect(panel.get_by_role("button", name="Show")).to_be_visible()
    expect_hidden(page)
    panel.get_by_role("button", name="Show").click()
    expect(panel).to_contain_text("patient 4711")


def expect_hidden(page: Page) -> None:
    expect(page.get_by_text("Hidden by policy").first).to_be_visible()
    assert "patient 4711" not in page.content()
