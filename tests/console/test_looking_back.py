"""The past in the console: the tail and its gaps, the heat map of hours, and one message as each API shows it."""

import json
import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.console.support import Console

pytestmark = pytest.mark.slow

KEPT, PER_SECOND = 2_000, 200
"""Events that a page keeps, and that a stream gives in a second."""
LONG_AGO = 1_700_000_000_000

DELIVER = """
    window.SharedWorker = class extends SharedWorker {
        constructor(...given) {
            super(...given);
            const port = this.port, post = port.postMessage.bind(port);
            let stream = 0;
            port.postMessage = (order) => ((stream = order.stream ?? stream), post(order));
            window.deliver = ([count, at]) => {
                for (let offset = 1; offset <= count; offset++) {
                    const event = { kind: "sent", queue: "made-up", message_id: `m${offset}`, offset, at: at++ };
                    const data = { stream, kind: "event", data: JSON.stringify(event), id: String(offset) };
                    port.dispatchEvent(new MessageEvent("message", { data }));
                }
            };
        }
    };
"""
"""Lets a test hand events to the page as if the stream had brought them: it brings 200 a second at most."""


def send_many(console: Console, queue: str, count: int) -> None:
    for first in range(0, count, 1_000):
        drafts = [{"body": str(number)} for number in range(first, min(count, first + 1_000))]
        console.call("POST", f"/queues/{queue}/messages", {"messages": drafts})


def open_tail(console: Console, queue: str) -> Page:
    console.open("tail", queue=queue).say("Waiting for events…")
    return console.page


def test_the_tail_goes_back_to_an_instant_and_to_the_present(console: Console) -> None:
    queue = console.queue()
    before = console.send(queue)["id"]
    page = open_tail(console, queue)
    page.get_by_label("Rewind to").fill(time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 60)))
    page.get_by_label("Rewind to").blur()
    console.say("Playing the past from")
    page.get_by_label("Speed").select_option("100")
    console.say(before)
    page.get_by_role("button", name="Now", exact=True).click()
    console.say("Waiting for events…")
    after = console.send(queue)["id"]
    console.say(after)
    expect(page.get_by_role("log").get_by_text(before)).to_have_count(0)


def test_what_the_tail_skipped_is_counted_and_shown_when_asked(console: Console) -> None:
    queue = console.queue()
    page = open_tail(console, queue)
    send_many(console, queue, 1_000)
    console.send(queue, body="the end", attributes={"last": True})
    gap = page.locator(".event.skipped")
    expect(gap.first).to_be_visible()
    status = page.get_by_role("status").filter(has_text="shown")
    while gap.count():
        skipped = int(re.sub(r"\D", "", re.findall(r"\+[\d,]+", gap.first.inner_text())[0]))
        assert 0 < skipped <= 1_001 - PER_SECOND
        before = gap.count()
        gap.first.get_by_role("button", name="Show them").click()
        expect(gap).not_to_have_count(before)
    expect(status).to_contain_text("1,001 events shown")


def test_the_past_waits_while_the_tail_is_paused(console: Console) -> None:
    queue = console.queue()
    first = console.send(queue)["id"]
    page = console.open("tail", queue=queue, at=str(int(time.time() * 1_000) - 60_000), speed="100").page
    console.say(first)
    console.click("Pause")
    send_many(console, queue, 2 * KEPT)
    last = console.send(queue)["id"]
    console.click("Go on")
    console.say(last)
    expect(page.get_by_text("came while the tail was paused")).to_have_count(0)


def test_a_paused_tail_of_the_present_says_how_many_it_left_out(console: Console) -> None:
    console.page.add_init_script(DELIVER)
    page = open_tail(console, console.queue())
    console.click("Pause")
    page.evaluate("deliver", [KEPT + 500, LONG_AGO])
    console.say("2,500 events waiting")
    console.say("500 events came while the tail was paused and are not kept")
    console.click("Go on")
    expect(page.get_by_role("status").filter(has_text="shown")).to_contain_text("2,000 events shown")
    console.say("500 events came while the tail was paused and are not kept")
    console.click("Play from there")
    expect(page).to_have_url(re.compile(f"at={LONG_AGO}"))
    console.say("Playing the past from")


def test_a_range_of_the_past_is_chosen_and_replayed(console: Console) -> None:
    queue, page = console.queue("busy-lately"), console.page
    send_many(console, queue, 3)
    for lease in console.receive(queue, limit=3):
        console.call("POST", f"/queues/{queue}/ack", {"receipt": lease["receipt"]})
    console.open("history")
    heat = page.get_by_role("img", name="Heat map of queues by hour")
    cell = heat.locator("rect.cell").filter(has=page.locator("title", has_text=re.compile(f"^{queue}, .*: 3$")))
    box = cell.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] - 2 * box["width"], box["y"] + 4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 4)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"from=\d+&to=\d+"))
    row = page.get_by_role("region", name="Queues in this range").get_by_role("row").filter(has_text=queue)
    expect(row.get_by_role("cell").nth(1)).to_have_text("3")
    row.get_by_role("button", name="Replay this range").click()
    console.say("3 messages match.")
    console.dialog.get_by_role("button", name="Replay", exact=True).click()
    console.say("3 messages done.")
    bodies = [message["body"] for message in console.call("GET", f"/queues/{queue}/messages")["messages"]]
    assert bodies == ["0", "1", "2"]


def test_a_message_is_shown_as_each_dialect_shows_it(console: Console) -> None:
    queue, page = console.queue(), console.page
    sent = console.send(queue, json={"n": 2**63 - 1}, attributes={"region": "eu"})
    told = console.call("GET", f"/queues/{queue}/messages/{sent['id']}/dialects")
    console.open("messages", sent["id"], queue=queue)
    tabs = page.get_by_role("tablist", name="As each client sees it")
    panel = page.get_by_role("tabpanel")
    for name, key in (
        ("Cloudflare", "cloudflare"),
        ("Anypoint", "anypoint"),
        ("discue", "discue"),
        ("Native", "native"),
    ):
        tabs.get_by_role("tab", name=name).click()
        expect(tabs.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
        expect(panel).to_contain_text(told["curl"][key][0]["command"].splitlines()[0])
        if told["dialects"][key] is not None:
            assert json.loads(panel.locator("pre").first.inner_text()) == told["dialects"][key]
    tabs.get_by_role("tab", name="Anypoint").click()
    page.reload()
    expect(tabs.get_by_role("tab", name="Anypoint")).to_have_attribute("aria-selected", "true")
