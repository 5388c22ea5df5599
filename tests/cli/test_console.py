"""`courier console`: an address that signs in."""

import pytest
import requests

from tests.cli.conftest import Courier

pytestmark = pytest.mark.slow


def test_the_address_signs_a_browser_in_once(courier: Courier) -> None:
    printed = courier.ok("console", "--json").json["url"]
    base, _, ticket = printed.partition("/console#ticket=")
    for expected in (200, 401):
        answer = requests.post(
            f"{base}/console/session", json={"ticket": ticket}, headers={"Courier-Console": "1"}, timeout=10
        )
        assert answer.status_code == expected


def test_without_a_browser_the_address_is_printed(courier: Courier) -> None:
    assert "/console#ticket=" in courier.ok("console", "--print").out


def test_trace_prints_the_life_of_a_message(courier: Courier) -> None:
    courier.ok("queues", "create", "traced")
    courier.ok("send", "traced", "hello", "--id", "message-1")
    courier.ok("receive", "traced", "--ack")
    lines = courier.ok("trace", "message-1").lines
    assert [line.split()[2] for line in lines] == ["sent", "received", "acked"]
    document = courier.ok("trace", "message-1", "--json").json
    assert [event["kind"] for event in document["events"]] == ["sent", "received", "acked"]


def test_trace_of_an_unknown_message_says_how_far_it_has_looked(courier: Courier) -> None:
    run = courier("trace", "nobody-knows")
    assert run.code == 3
    assert "no event of message" in run.err


def test_operations_count_do_and_tell(courier: Courier) -> None:
    courier.ok("queues", "create", "bulk")
    for number in range(3):
        courier.ok("send", "bulk", f"text {number}")
    assert courier.ok("operations", "start", "remove", "bulk", "--preview").out.startswith("3 messages of 3")
    assert courier("operations", "start", "remove", "bulk").code == 2  # nobody is there to confirm it
    run = courier.ok("operations", "start", "remove", "bulk", "--contains", "text 1", "--yes", "--wait", "--json")
    assert (run.json["state"], run.json["done_count"]) == ("done", 1)
    assert "done, 1 message" in courier.ok("operations", "list").out
    assert "done, 1 message" in courier.ok("operations", "show", run.json["id"]).out
    assert courier.ok("operations", "cancel", run.json["id"], "--json").json["state"] == "done"
    assert courier("operations", "start", "eat", "bulk").code == 2
