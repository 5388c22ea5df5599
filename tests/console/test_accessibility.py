"""axe-core finds nothing on any page, in light and dark colours and on a narrow screen."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.console.support import Console
from tests.support.server import ServerProcess

pytestmark = pytest.mark.slow

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RULES_OF_COLOURS = ["color-contrast", "link-in-text-block"]
LAYOUTS = {"wide": 1280, "narrow": 400}


def pages(queue: str, dead: str, message: str) -> list[tuple[str, ...]]:
    tabs = [("queues", queue, tab) for tab in ("messages", "receivers", "settings")]
    lists = ["queues", "map", "exchanges", "listeners", "tail", "history", "credentials", "server"]
    return [(), *((one,) for one in lists), ("queues", queue), *tabs, ("queues", dead, "dead"), ("messages", message)]


def violations(console: Console, axe: str, *, dark: bool = False) -> list[Any]:
    """In light colours and, as far as colours matter, in dark ones."""
    page = console.page
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    page.evaluate(f"() => {{ {axe} }}")  # through the debugger, which no policy binds
    found = page.evaluate("rules => axe.run({ runOnly: rules })", RULES)["violations"]
    if dark:
        page.emulate_media(color_scheme="dark")
        found += page.evaluate("rules => axe.run({ runOnly: rules })", RULES_OF_COLOURS)["violations"]
        page.emulate_media(color_scheme="light")
    return [(one["id"], node["html"][:160], node["failureSummary"]) for one in found for node in one["nodes"]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_page_can_be_used_by_everybody(
    browser: Browser, server: ServerProcess, node_modules: Path, layout: str
) -> None:
    width, dark = LAYOUTS[layout], layout == "wide"
    axe = (node_modules / "axe-core" / "axe.min.js").read_text()
    context = browser.new_context(
        viewport={"width": width, "height": 860}, color_scheme="light", reduced_motion="reduce", bypass_csp=True
    )
    console = Console(context.new_page(), server)
    dead = console.queue(f"dead-{layout}")
    queue = console.queue(f"orders-{layout}", max_attempts=1, dead_letter_queue=dead)
    console.send(queue, json={"order": 1}, attributes={"region": "eu"})
    [lease] = console.receive(queue)
    console.call("POST", f"/queues/{queue}/release", {"receipt": lease["receipt"]})
    message = console.send(queue, json={"order": 2})["id"]
    console.page.goto(f"{server.url}/console")
    expect(console.page.get_by_label("Token")).to_be_visible()
    found = {"sign-in": violations(console, axe, dark=dark)}
    console.sign_in()
    for parts in pages(queue, dead, message):
        found["/".join(parts)] = violations(console.open(*parts), axe, dark=dark)
        wide = console.page.evaluate("document.scrollingElement.scrollWidth")
        assert wide <= width, f"{parts} must be scrolled sideways: it is {wide} pixels wide"
    console.page.goto(f"{server.url}/docs")
    expect(console.page.locator("main h1")).to_be_visible()
    found["docs"] = [one for one in violations(console, axe, dark=dark) if one[0] == "color-contrast"]
    context.close()
    assert {name: one for name, one in found.items() if one} == {}
