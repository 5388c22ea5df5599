"""What stays readable with long names and on small screens."""

import pytest
from playwright.sync_api import ViewportSize, expect

from tests.console.support import Console

pytestmark = pytest.mark.slow

LONG = "x" * 100
PHONE: ViewportSize = {"width": 400, "height": 800}


@pytest.mark.parametrize("width", [400, 1280])
def test_a_long_name_does_not_widen_the_overview(console: Console, width: int) -> None:
    console.page.set_viewport_size({"width": width, "height": 800})
    name = console.queue(f"{LONG}{width}")
    console.send(name)
    console.open("").say(f"{name} was created")
    assert console.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_opened_message_comes_into_sight_on_a_phone(console: Console) -> None:
    console.page.set_viewport_size(PHONE)
    queue = console.queue()
    console.call("POST", f"/queues/{queue}/messages", {"messages": [{"body": str(n)} for n in range(40)]})
    console.open("queues", queue, "messages")
    console.page.get_by_role("row").nth(2).get_by_role("cell").nth(3).click()
    expect(console.page.get_by_label("Message", exact=True).get_by_role("heading").first).to_be_in_viewport()


def test_the_heat_map_scrolls_on_a_phone_instead_of_shrinking(console: Console) -> None:
    console.page.set_viewport_size(PHONE)
    console.send(console.queue())
    console.open("history")
    heat = console.page.locator("svg.heat").bounding_box()
    assert heat is not None
    assert heat["width"] >= 600
    assert console.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
