"""What operators do in the console, in Debian's Chromium against a real server."""

import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.console.support import Console, Receiver
from tests.support.server import ServerProcess

pytestmark = pytest.mark.slow

TAIL_KEPT, TAIL_DRAWN = 2_000, 400
"""Events of the tail that the page remembers, and that are in the document."""

RECORD_PROGRESS = """
    window.progress = [];
    new MutationObserver(() => {
        const text = document.querySelector("dialog [role=status] .hint")?.textContent;
        if (text && text !== progress.at(-1)) progress.push(text);
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
"""
"""Keeps every text about progress that a dialog has shown."""

RECORD_UPDATES = """
    window.updates = [];
    window.SharedWorker = class extends SharedWorker {
        constructor(...given) {
            super(...given);
            this.port.addEventListener("message", (event) => {
                if (!["snapshot", "rates"].includes(event.data.kind)) return;
                const news = JSON.parse(event.data.data), row = news.queues?.[0];
                if (updates.at(-1)?.ready_count) event.stopImmediatePropagation();
                else updates.push({ at: news.at, ready_count: row?.ready_count ?? 0 });
            });
        }
    };
"""
"""Keeps the updates that the live stream has brought, up to the first with a message; later ones do not arrive."""


def test_a_wrong_token_is_refused_with_a_sentence(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.url}/console")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()


def test_signing_out_ends_the_session(console: Console) -> None:
    console.click("Sign out")
    expect(console.page.get_by_label("Token")).to_be_visible()
    console.page.reload()
    expect(console.page.get_by_label("Token")).to_be_visible()


def test_no_script_can_read_the_session(console: Console) -> None:
    assert console.page.evaluate("document.cookie") == ""
    assert console.server.token not in console.page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")


def test_a_queue_is_created_and_a_message_sent_and_seen(console: Console) -> None:
    page = console.page
    console.open("queues").click("Create queue")
    console.dialog.get_by_label("Name").fill("made-here")
    console.dialog.get_by_role("button", name="Create").click()
    expect(page).to_have_url(re.compile("/console/queues/made-here$"))
    console.click("Send")
    console.dialog.get_by_label("Body", exact=True).fill("hello from the page")
    console.dialog.get_by_role("button", name="Send", exact=True).click()
    console.say("1 message sent and on disk.")
    page.get_by_role("link", name="Messages").click()
    console.say("hello from the page")


def test_a_message_that_others_send_is_seen_by_the_second_update_of_the_stream(console: Console) -> None:
    """Updates come once a second, which tests/dialects/native/test_live.py shows: so it is seen within two seconds."""
    queue, page = console.queue(), console.page
    page.add_init_script(RECORD_UPDATES)
    console.open("queues", queue, "messages").say("No messages")
    page.wait_for_function("updates.length > 0")
    sent_at = console.call("GET", f"/queues/{queue}/messages/{console.send(queue, body='from elsewhere')['id']}")[
        "sent_at"
    ]
    expect(page.get_by_text("from elsewhere")).to_be_visible()
    later = [update for update in page.evaluate("updates") if update["at"] > sent_at]
    assert [update["ready_count"] for update in later][-1:] == [1]
    assert len(later) <= 2


def test_a_lease_is_shown_with_its_holder(console: Console) -> None:
    queue = console.queue()
    sent = console.send(queue)
    made = console.call("POST", "/credentials", {"name": "billing"})
    console.call(
        "POST", f"/queues/{queue}/receive", {"lease_ms": 600_000}, headers={"Authorization": f"Bearer {made['secret']}"}
    )
    console.open("queues", queue, "receivers")
    row = console.page.get_by_role("row").filter(has_text=sent["id"])
    expect(row).to_contain_text("billing")


def test_a_message_dies_and_is_redriven_with_one_button(console: Console) -> None:
    dead, page = console.queue(), console.page
    queue = console.queue(max_attempts=1, dead_letter_queue=dead)
    sent = console.send(queue, body="poison")
    [lease] = console.receive(queue)
    console.call("POST", f"/queues/{queue}/release", {"receipt": lease["receipt"]})
    console.open("queues", dead, "dead")
    expect(page.get_by_role("row").filter(has_text=queue)).to_contain_text("Too many attempts")

    console.open("messages", sent["id"], queue=dead)
    lanes = page.get_by_role("group", name="Timeline of the message")
    for text in (queue, dead, "Sent", "Received", "Dead"):
        expect(lanes).to_contain_text(text)

    console.open("queues", dead, "dead").click("Redrive all")
    console.say("1 message matches.")
    console.dialog.get_by_role("button", name="Redrive", exact=True).click()
    console.say("1 message done.")
    console.dialog.get_by_role("button", name="Close").last.click()
    console.say("No dead letters")
    assert [lease["message"]["id"] for lease in console.receive(queue)] == [sent["id"]]


def test_a_purge_of_many_messages_shows_how_far_it_has_come(console: Console) -> None:
    queue = console.queue()
    console.send(queue)
    console.call("POST", f"/queues/{queue}/purge")
    for _ in range(100):
        console.call("POST", f"/queues/{queue}/messages", {"messages": [{"body": "x"}] * 1_000})
    console.open("queues", queue).say("100,000")
    console.page.evaluate(RECORD_PROGRESS)
    console.click("Purge")
    console.dialog.get_by_role("button", name="Purge", exact=True).click()
    console.say(f"100,000 messages of {queue} removed.")
    assert console.call("GET", f"/queues/{queue}/counters")["total_count"] == 0
    shown = [int(text.removesuffix(" removed so far").replace(",", "")) for text in console.page.evaluate("progress")]
    assert shown == sorted(shown)
    assert [number for number in shown if 1 < number < 100_000], shown
    assert 1 not in shown  # what the purge before has removed


def test_all_queues_that_match_are_paused_resumed_and_purged(console: Console) -> None:
    names = [console.queue(f"bulk-{number}") for number in range(3)]
    other = console.queue("another")
    for name in (*names, other):
        console.send(name)

    def figures(name: str) -> tuple[bool, int]:
        paused = console.call("GET", f"/queues/{name}")["settings"]["paused"]
        return paused, console.call("GET", f"/queues/{name}/counters")["total_count"]

    console.open("queues", find="bulk-").say("All 3 queues that match:")
    for verb, found in (("Pause", (True, 1)), ("Resume", (False, 1)), ("Purge", (False, 0))):
        console.page.get_by_role("group", name="Selection").get_by_role("button", name=verb).click()
        console.dialog.get_by_role("button", name=verb, exact=True).click()
        console.say(f"{verb}: 3 queues")
        assert [figures(name) for name in names] == [found] * 3
        assert figures(other) == (False, 1)


def test_the_tail_loses_nothing_when_the_server_is_killed(console: Console) -> None:
    queue, page = console.queue(), console.page
    console.open("tail", queue=queue).say("Waiting for events…")
    expect(page.get_by_role("status").filter(has_text="shown")).to_be_visible()
    first = console.send(queue)["id"]
    console.say(first)
    console.server.kill()
    expect(page.get_by_role("alert")).to_be_visible()
    console.server.come_back()
    others = [console.send(queue)["id"] for _ in range(20)]
    for one in (first, *others):
        expect(page.get_by_role("log").get_by_text(one)).to_have_count(1)


def test_the_tail_plays_the_past_and_keeps_a_bounded_number_of_events(console: Console) -> None:
    queue, begun = console.queue(), int(time.time() * 1_000)
    for _ in range(3):
        console.call("POST", f"/queues/{queue}/messages", {"messages": [{"body": "x"}] * 1_000})
    page = console.open("tail", queue=queue, at=str(begun), speed="100").page
    shown = page.get_by_role("status").filter(has_text="shown")
    expect(shown).to_contain_text(f"{TAIL_KEPT:,} events shown")
    console.say(console.send(queue)["id"])
    expect(shown).to_contain_text(f"{TAIL_KEPT:,} events shown")
    assert page.get_by_role("log").locator("[data-offset]").count() == TAIL_DRAWN


def test_a_failing_listener_shows_its_attempts_and_is_replayed(console: Console, receiver: Receiver) -> None:
    queue, page = console.queue(), console.page
    receiver.answer(500, b"the database is down")
    console.call(
        "POST", f"/queues/{queue}/listeners", {"name": "erp", "url": receiver.url, "settings": {"schedule_ms": [0]}}
    )
    sent = console.send(queue)
    console.open("listeners").page.get_by_role("link", name="erp").click()
    row = page.get_by_role("row").filter(has_text=sent["id"][:16]).first
    expect(row).to_contain_text("500")
    expect(row).to_contain_text("the database is down")
    expect(page.get_by_role("row").filter(has_text="Dead")).to_have_count(1)
    receiver.answer(200, b"thanks")
    console.click("Replay missed")
    console.dialog.get_by_role("button", name="Replay", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="Delivered")).to_have_count(1)


def test_settings_are_changed_and_the_change_is_undone(console: Console) -> None:
    queue, page = console.queue(), console.page
    console.open("queues", queue, "settings")
    page.get_by_label("Lease (visibility timeout, lock)").fill("5")
    console.click("Save changes")
    console.say("Lease (visibility timeout, lock): 30 s → 5 s")
    console.click("Undo")
    expect(page.get_by_label("Lease (visibility timeout, lock)")).to_have_value("30")
    assert console.call("GET", f"/queues/{queue}")["settings"]["lease_ms"] == 30_000


def test_a_limit_of_leases_is_set_and_lifted(console: Console) -> None:
    queue, page = console.queue(), console.page
    console.open("queues", queue, "settings")
    page.get_by_label("Leased at most (in flight)").fill("20")
    console.click("Save changes")
    console.say("Leased at most (in flight): – → 20")
    assert console.call("GET", f"/queues/{queue}")["settings"]["max_leased"] == 20
    page.get_by_label("Leased at most (in flight)").fill("")
    console.click("Save changes")
    console.say("Leased at most (in flight): 20 → –")
    assert console.call("GET", f"/queues/{queue}")["settings"]["max_leased"] is None


def test_a_rule_is_tried_without_sending(console: Console) -> None:
    east, west = console.queue(), console.queue()
    console.call("POST", "/exchanges", {"name": "regions"})
    for queue, region in ((east, "east"), (west, "west")):
        rule = {"attribute": "region", "type": "string", "matcher": "eq", "value": region}
        console.call("PUT", f"/exchanges/regions/bindings/{queue}", {"rules": [rule]})
    console.open("exchanges", "regions").page.get_by_label("Attributes").fill("region=east")
    console.click("Test")
    expect(console.page.get_by_role("listitem").filter(has_text="gets it")).to_contain_text(east)
    expect(console.page.get_by_role("listitem").filter(has_text="refused by region eq")).to_contain_text(west)
    assert console.call("GET", f"/queues/{east}/counters")["total_count"] == 0


def test_a_new_credential_shows_its_secret_once(console: Console) -> None:
    queue, page = console.queue(), console.page
    console.open("credentials").click("Create credential")
    console.dialog.get_by_label("Name").fill("shop")
    console.dialog.get_by_role("checkbox", name="send").check()
    console.dialog.get_by_label("send: Queues").fill(queue)
    console.dialog.get_by_role("button", name="Create").click()
    console.say("It is shown this once.")
    found = re.search(r"COURIER_TOKEN=(\S+)", console.dialog.inner_text())
    assert found is not None
    secret = found[1]
    given = {"headers": {"Authorization": f"Bearer {secret}"}}
    console.call("POST", f"/queues/{queue}/messages", {"body": "with the new secret"}, **given)
    console.dialog.get_by_role("button", name="Close").click()
    row = page.get_by_role("row").filter(has_text="shop")
    expect(row).to_contain_text(queue)
    assert secret not in page.content()
    page.reload()
    expect(row).to_contain_text(queue)
    assert secret not in page.content()
    assert secret not in str(console.call("GET", "/credentials"))


def test_what_a_credential_may_not_do_is_disabled_and_says_why(page: Page, server: ServerProcess) -> None:
    root = Console(page, server)
    queue = root.queue()
    scope = {"action": "browse", "queues": [queue]}
    made = root.call("POST", "/credentials", {"name": "reader", "scopes": [scope]})
    console = root.sign_in(made["secret"]).open("queues", queue, "messages")
    root.send(queue, body="readable")
    console.open("queues", queue, "messages").say("readable")
    for name, action in (("Send", "send"), ("Purge", "manage"), ("Pause", "manage")):
        button = page.get_by_role("button", name=name, exact=True)
        expect(button).to_be_disabled()
        expect(button).to_have_accessible_description(f"Your credential lacks the scope {action}.")


def test_a_page_is_found_by_typing(console: Console) -> None:
    queue = console.queue("a-queue-to-find")
    console.open("history")
    console.page.keyboard.press("Control+k")
    console.dialog.get_by_role("combobox").fill("to-find")
    expect(console.dialog.get_by_role("option").first).to_contain_text(queue)
    console.page.keyboard.press("Enter")
    expect(console.page).to_have_url(re.compile(f"/queues/{queue}$"))
    console.page.keyboard.press("g")
    console.page.keyboard.press("t")
    expect(console.page).to_have_url(re.compile("/tail$"))


def test_the_page_of_a_queue_that_is_deleted_says_so(console: Console) -> None:
    queue = console.queue()
    console.send(queue)
    console.open("queues", queue).say("can be received")
    console.call("DELETE", f"/queues/{queue}")
    console.say(f"no queue named '{queue}'")
    expect(console.page.get_by_text("can be received")).to_have_count(0)


def test_pages_without_the_right_to_figures_say_so(page: Page, server: ServerProcess) -> None:
    root = Console(page, server)
    scope = {"action": "browse", "queues": [root.queue()]}
    made = root.call("POST", "/credentials", {"name": "browser", "scopes": [scope]})
    console = root.sign_in(made["secret"])
    for name in ("queues", "tail"):
        console.open(name)
        expect(page.get_by_role("alert")).to_contain_text("this credential may not")
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        expect(page.get_by_text("The connection was lost")).to_have_count(0)
    page.goto(f"{server.url}/console")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


@pytest.mark.parametrize("way", ["undefined", "{ writeText: () => Promise.reject() }"])
def test_copying_works_over_plain_http_or_says_that_it_does_not(console: Console, way: str) -> None:
    page = console.page
    page.add_init_script(f"Object.defineProperty(Navigator.prototype, 'clipboard', {{ get: () => ({way}) }})")
    sent = console.send(console.queue())
    console.open("messages", sent["id"])
    console.click("Copy link")
    if way != "undefined":
        return console.say("Not copied")
    console.say("Copied")
    page.keyboard.press("Control+k")
    field = console.dialog.get_by_role("combobox")
    field.press("Control+v")
    expect(field).to_have_value(page.url)
    return None


def test_pages_are_live_in_a_browser_without_shared_workers(console: Console) -> None:
    page, queue = console.page, console.queue()
    page.add_init_script("delete window.SharedWorker")
    console.open("tail").say("Waiting for events…")
    sent = console.send(queue)
    console.say(sent["id"])


def test_a_tab_that_could_not_be_loaded_is_loaded_later(console: Console) -> None:
    page, queue = console.page, console.queue()
    console.open("queues", queue)
    page.route("**/queue-receivers.js", lambda route: route.abort(), times=1)
    page.get_by_role("link", name="Receivers").click()
    console.say("Nobody has received lately")


def test_events_name_the_credential_and_tell_changes(console: Console) -> None:
    page, queue = console.page, console.queue()
    console.open("tail").say("Waiting for events…")
    made = console.call("POST", "/credentials", {"name": "the-shop"})
    console.say("Credential the-shop was created")
    as_shop = {"authorization": f"Bearer {made['secret']}"}
    sent = console.call("POST", f"/queues/{queue}/messages", {"body": "x"}, headers=as_shop)
    console.open("messages", sent["id"], queue=queue)
    expect(page.get_by_role("region", name="Events")).to_contain_text("the-shop")


def test_a_message_that_nobody_knows_is_not_called_settled(console: Console) -> None:
    console.open("messages", "no-such-message").say("Nothing was found")
    expect(console.page.get_by_text("The message is settled")).to_have_count(0)


def test_a_long_replay_of_a_listener_goes_on_to_its_end(console: Console, receiver: Receiver) -> None:
    queue, page = console.queue(), console.page
    made = console.call("POST", f"/queues/{queue}/listeners", {"name": "long", "url": receiver.url})
    answers = iter(({"count": 10_000, "missing": [], "next_since": 5}, {"count": 3, "missing": [], "next_since": None}))
    page.route("**/replay", lambda route: route.fulfill(json=next(answers)))
    console.open("listeners", made["id"]).click("Replay a time range")
    console.dialog.get_by_label("From").fill("2026-01-01T00:00:00")
    console.dialog.get_by_role("button", name="Replay", exact=True).click()
    console.say("Replayed 10003 messages.")


def test_a_limit_of_leases_is_shown_next_to_the_leased_messages(console: Console) -> None:
    queue, page = console.queue(max_leased=3), console.page
    console.open("queues", queue).say("of 3 at most")
    page.get_by_role("link", name="Settings").click()
    field = page.get_by_label("Leased at most")
    field.fill("")
    expect(field).to_have_attribute("placeholder", "no limit")
    console.click("Save changes")
    console.say("Saved.")
    assert console.call("GET", f"/queues/{queue}")["settings"]["max_leased"] is None
