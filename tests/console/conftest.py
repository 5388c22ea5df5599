"""A server in its own process, and Debian's Chromium that looks at its console."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.console.support import CHROMIUM, Console, Receiver, receiving
from tests.support.ports import free_port
from tests.support.server import ServerProcess, start_server

SIZE = (1280, 860)
PATIENCE_MS = 20_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("console"), port=free_port(), delivery_allow="127.0.0.0/8") as server:
        yield server


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page in a browser without cookies; a violation of the policy or an error in a script fails the test."""
    context = browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(error.stack or str(error)))
    page.on("console", lambda line: wrong.append(line.text) if "Content Security Policy" in line.text else None)
    yield page
    context.close()
    assert wrong == []


@pytest.fixture
def console(page: Page, server: ServerProcess) -> Console:
    """The console, signed in as root."""
    return Console(page, server).sign_in()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def node_modules() -> Path:
    return Path(__file__).parent / "node" / "node_modules"
