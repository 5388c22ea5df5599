"""What stays readable with long names and on small screens."""

import pytest
from playwright.sync_api import expect

from tests.console.support import Console

pytestmark = pytest.mark.slow

LONG = "x" * 100
PHONE = {"width": 400, "height": 800}


@pytest.mark.parametrize("width", [400, 1280])
def test_a_long_name_does_not_widen_the_overview(console: Console, width: int) -> None:
    console.page.set_viewport_size({"width": width, "height": 800})
    name = console.queue(f"{LONG}{width}")
    console.send(name)
    console.open("").say(f"{name} was created")
    assert console.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
