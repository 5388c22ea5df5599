"""`console_read_only`: a browser looks at everything and changes nothing."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.console.support import Console
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("read-only"), console_read_only=True) as server:
        yield server


def test_every_button_that_changes_something_is_disabled_and_says_why(console: Console) -> None:
    queue = console.queue()
    console.send(queue, body="to be seen")
    console.call("POST", "/credentials", {"name": "shop"})
    console.open("queues", queue, "messages").say("to be seen")
    disabled = [(("queues", queue), ("Send", "Purge", "Pause")), (("queues",), ("Create queue",))]
    disabled.append((("credentials",), ("Create credential", "Rotate", "Delete")))
    for path, names in disabled:
        console.open(*path)
        for name in names:
            button = console.page.get_by_role("button", name=name, exact=True)
            expect(button).to_be_disabled()
            expect(button).to_have_accessible_description(re.compile("console_read_only"))
    expect(console.page.get_by_role("row").filter(has_text="shop")).to_be_visible()


def test_the_server_refuses_what_a_page_asks_for_nevertheless(console: Console) -> None:
    queue = console.queue()
    console.open("queues", queue)
    status = console.page.evaluate(
        """path => fetch(path, {
            method: "POST", body: "{\\"body\\": \\"x\\"}",
            headers: {"Courier-Console": "1", "Content-Type": "application/json"},
        }).then((answer) => answer.status)""",
        f"/courier/v1/tenants/default/queues/{queue}/messages",
    )
    assert status == 403
    assert console.call("GET", f"/queues/{queue}/counters")["total_count"] == 0
