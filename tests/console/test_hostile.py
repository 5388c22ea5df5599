"""Bodies and names that try to be more than text."""

import base64

import pytest
from playwright.sync_api import expect

from tests.console.support import Console

pytestmark = pytest.mark.slow

ATTACK = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


def test_markup_in_a_body_is_shown_as_text(console: Console) -> None:
    queue = console.queue()
    sent = console.send(queue, body=ATTACK, attributes={"note": ATTACK})
    console.open("queues", queue, "messages", seq=str(sent["seq"]))
    expect(console.page.get_by_label("Message", exact=True).locator("pre")).to_have_text(ATTACK)
    console.open("messages", sent["id"], queue=queue).say(ATTACK)
    assert console.page.evaluate("window.hacked") is None
    assert console.page.locator("main img").count() == 0


def test_large_integers_are_shown_exactly(console: Console) -> None:
    queue, number = console.queue(), 2**63 - 25
    sent = console.send(queue, json={"id": number, "price": 12.50, "list": [2**53 + 1]})
    console.open("queues", queue, "messages", seq=str(sent["seq"]))
    tree = console.page.get_by_label("Message", exact=True).locator(".tree")
    expect(tree).to_contain_text(str(number))
    expect(tree).to_contain_text(str(2**53 + 1))


def test_deep_json_is_shown(console: Console) -> None:
    queue, body = console.queue(), "[" * 50_000 + "]" * 50_000
    sent = console.send(queue, body=body, content_type="application/json")
    console.open("queues", queue, "messages", seq=str(sent["seq"])).click("Load all", exact=False)
    expect(console.page.get_by_label("Message", exact=True).locator(".code")).to_contain_text("[[[[")


def test_binary_data_is_shown_as_hex(console: Console) -> None:
    queue = console.queue()
    sent = console.send(queue, body_base64=base64.b64encode(bytes([0, 1, 255, 65])).decode())
    console.open("queues", queue, "messages", seq=str(sent["seq"]))
    expect(console.page.get_by_label("Message", exact=True).locator("pre")).to_contain_text("00 01 ff 41")


def test_a_name_from_right_to_left_does_not_turn_its_neighbours(console: Console) -> None:
    group = "\u202eevil\u05d0\u05d1"
    queue = console.queue()
    sent = console.send(queue, body="x", attributes={"name": group})
    console.open("queues", queue, "messages", seq=str(sent["seq"]))
    expect(console.page.locator("bdi").filter(has_text=group).first).to_be_visible()
