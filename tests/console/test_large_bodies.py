"""Bodies as large as Courier takes: shown in part, told and downloaded exactly, and never cut by accident."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.console.support import Console
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

LARGEST = 64 * 1024 * 1024
SHOWN_CHARS = 100_000
"""More than a page shows of a body, and far less than what it must not put into the document."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that takes requests with the largest body and the JSON around it."""
    with start_server(tmp_path_factory.mktemp("large"), max_request_bytes=LARGEST + 1_048_576) as server:
        yield server


def text_of(size: int) -> str:
    """A text in which no part is like another, so that a lost or repeated one is noticed."""
    lines = (f"{number:015} " for number in range(size // 16))
    return "".join(lines).ljust(size, ".")


def panel_of(console: Console) -> Locator:
    return console.page.get_by_label("Message", exact=True)


@pytest.fixture(scope="module")
def largest(browser: Browser, server: ServerProcess) -> tuple[str, dict[str, str]]:
    """A queue with a message of 64 MiB, which the tests only look at."""
    with contextlib.closing(browser.new_page()) as page:
        console = Console(page, server)
        queue = console.queue(max_body_bytes=LARGEST)
        return queue, console.send(queue, body=text_of(LARGEST))


def test_the_largest_body_is_shown_in_part_and_its_size_exactly(
    console: Console, largest: tuple[str, dict[str, str]]
) -> None:
    queue, sent = largest
    console.open("queues", queue, "messages", seq=str(sent["seq"]))
    console.say("The beginning of 64 MiB.")
    console.say("64 MiB (67,108,864 bytes)")
    assert len(panel_of(console).inner_text()) < SHOWN_CHARS
    console.click("Load all 64 MiB")
    console.say("65,536 of 67,108,864 characters")
    assert len(panel_of(console).inner_text()) < SHOWN_CHARS
    panel_of(console).get_by_role("link", name="Timeline").click()
    console.say("The beginning of 64 MiB.")
    assert len(console.page.locator("main").inner_text()) < SHOWN_CHARS


def test_the_largest_body_is_downloaded_exactly(
    console: Console, largest: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    queue, sent = largest
    console.open("queues", queue, "messages", seq=str(sent["seq"]))
    with console.page.expect_download() as started:
        panel_of(console).get_by_role("link", name="Download").click()
    started.value.save_as(tmp_path / "body")
    with (tmp_path / "body").open("rb") as body:
        found = hashlib.file_digest(body, "sha256")
    assert found.digest() == hashlib.sha256(text_of(LARGEST).encode()).digest()
    console.page.get_by_role("link", name="Queues", exact=True).first.click()
    expect(console.page.get_by_role("link", name=queue)).to_be_visible()


def test_a_body_that_is_shown_in_part_is_resent_whole(console: Console) -> None:
    queue, body = console.queue(), text_of(100_000)
    sent = console.send(queue, body=body)
    console.open("messages", sent["id"], queue=queue).click("Edit and resend")
    console.dialog.get_by_role("button", name="Send", exact=True).click()
    console.say("1 message sent and on disk.")
    bodies = [message["body"] for message in console.call("GET", f"/queues/{queue}/messages")["messages"]]
    assert bodies == [body, body]


def test_a_body_that_is_too_large_to_edit_says_so(console: Console) -> None:
    queue = console.queue(max_body_bytes=LARGEST)
    sent = console.send(queue, body=text_of(2_000_000))
    console.open("messages", sent["id"], queue=queue)
    button = console.page.get_by_role("button", name="Edit and resend")
    expect(button).to_be_disabled()
    expect(button).to_have_accessible_description("Bodies over 1 MiB are not edited here; Resend sends a copy.")
