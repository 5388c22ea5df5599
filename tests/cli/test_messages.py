"""Messages through the real command: send, receive, settle, browse."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Courier

pytestmark = pytest.mark.slow


@pytest.fixture
def queue(courier: Courier, tenant: str) -> str:
    courier.ok("queues", "create", "orders")
    return "orders"


def test_a_message_goes_in_and_comes_out(courier: Courier, queue: str) -> None:
    sent = courier.ok("send", queue, "hello").out
    assert sent.startswith("sent ")
    received = courier.ok("receive", queue, "--ack").lines
    assert received[0].startswith(sent.split()[1])
    assert "attempt 1" in received[0]
    assert received[1] == "hello"
    assert courier.ok("receive", queue).err == "nothing to receive from orders\n"


def test_everything_about_a_message_can_be_said_when_it_is_sent(courier: Courier, queue: str) -> None:
    attributes = ["-a", "region=eu", "-a", "priority=5", "--attribute", "urgent=true", "--attribute", 'zip="01"']
    order = ["--id", "my-id", "--group", "g", "--retention", "1h", "--content-type", "text/csv"]
    sent = courier.ok("send", queue, "a,b", *attributes, *order, "--json").json
    assert sent["id"] == "my-id"
    (lease,) = courier.ok("receive", queue, "--json", "--lease", "2m").json
    message = lease["message"]
    assert message["attributes"] == {"region": "eu", "priority": 5, "urgent": True, "zip": "01"}
    assert (message["body"], message["content_type"], message["group"]) == ("a,b", "text/csv", "g")
    assert message["discard_at"] - message["sent_at"] == 3_600_000
    assert lease["expires_at"] - message["sent_at"] >= 120_000


def test_a_body_comes_from_standard_input_or_from_a_file_byte_for_byte(
    courier: Courier, queue: str, tmp_path: Path
) -> None:
    body = b"\xff\x00 not text\n"
    (tmp_path / "body").write_bytes(body)
    courier.ok("send", queue, stdin=body)
    courier.ok("send", queue, "-", stdin=body)
    courier.ok("send", queue, f"@{tmp_path}/body")
    courier.ok("send", queue, "@@text")
    courier.ok("send", queue, "--", "--json")
    run = courier.ok("receive", queue, "-n", 10, "--raw", "--ack")
    assert run.raw == (body + b"\n") * 3 + b"@text\n--json\n"


def test_a_json_body_is_called_so(courier: Courier, queue: str) -> None:
    courier.ok("send", queue, '{"sku": 7}')
    (lease,) = courier.ok("receive", queue, "--json").json
    assert (lease["message"]["content_type"], lease["message"]["body"]) == ("application/json", '{"sku": 7}')


def test_each_line_of_the_input_becomes_a_message(courier: Courier, queue: str) -> None:
    lines = b"".join(b"line %d\r\n\n" % number for number in range(1_234))
    assert courier.ok("send", queue, "--lines", stdin=lines).out == "sent 1,234 messages\n"
    bodies = courier.ok("receive", queue, "-n", 1000, "--raw", "--ack").lines
    assert bodies == [f"line {number}" for number in range(1_000)]


def test_a_message_is_sent_many_times(courier: Courier, queue: str) -> None:
    run = courier.ok("send", queue, "x", "--repeat", 700, "--json")
    summary, last = run.json, json.loads(run.err.splitlines()[-1])
    assert (last["job"], last["done"], last["total"]) == ("sending", 700, 700)
    assert summary == {"sent_count": 700, "duplicate_count": 0, "refused_count": 0, "errors": []}
    assert courier.ok("queues", "counters", queue, "--json").json["ready_count"] == 700


def test_what_a_batch_loses_is_told_with_its_reason(courier: Courier, tenant: str) -> None:
    courier.ok("queues", "create", "small", "--max-body", "4")
    run = courier("send", "small", "--lines", stdin=b"tiny\nfar too large\nlong too\nok\n")
    assert run.code == 1
    assert run.out == "sent 2 messages, 2 refused\n"
    assert "at most 4 are allowed" in run.err


def test_a_duplicate_is_told_on_a_fifo_queue(courier: Courier, tenant: str) -> None:
    courier.ok("queues", "create", "ordered", "--kind", "fifo")
    courier.ok("send", "ordered", "a", "--group", "g", "--dedup-id", "1")
    assert courier.ok("send", "ordered", "a", "--group", "g", "--dedup-id", "1").out.startswith(
        "dropped as a duplicate"
    )


def test_receipts_settle_what_was_received(courier: Courier, queue: str) -> None:
    courier.ok("send", queue, "x", "--repeat", 3)
    first, second, third = (lease["receipt"] for lease in courier.ok("receive", queue, "-n", 3, "--json").json)
    assert courier.ok("ack", queue, first).out.startswith("acked ")
    assert courier.ok("extend", queue, second, "--lease", "10m").out.startswith("extended ")
    assert courier.ok("release", queue, third, "--delay", "1h").out.startswith("released ")
    assert courier.ok("ack", queue, "-", stdin=second.encode() + b"\n").out.startswith("acked ")
    counters = courier.ok("queues", "counters", queue, "--json").json
    assert (counters["ready_count"], counters["delayed_count"], counters["leased_count"]) == (0, 1, 0)


def test_what_receive_shows_as_json_can_be_piped_into_ack(courier: Courier, queue: str) -> None:
    courier.ok("send", queue, "x", "--repeat", 3)
    shown = courier.ok("receive", queue, "-n", 3, "--json").out.encode()
    assert courier.ok("ack", queue, "-", stdin=shown).out.count("acked ") == 3
    assert courier.ok("ack", queue, "-", stdin=courier.ok("receive", queue, "--json").out.encode()).out == ""
    assert courier("ack", queue, "-", stdin=b'["no lease"]').code == 2


def test_a_receipt_that_is_no_longer_good_fails_alone(courier: Courier, queue: str) -> None:
    courier.ok("send", queue, "x", "--repeat", 2)
    receipts = [lease["receipt"] for lease in courier.ok("receive", queue, "-n", 2, "--json").json]
    courier.ok("ack", queue, receipts[0])
    run = courier("ack", queue, *receipts, "--json")
    assert run.code == 1
    assert ["error" in result for result in run.json] == [True, False]
    assert run.err.startswith("courier: receipt 1: the lease has ended")


def test_a_released_message_that_has_no_attempt_left_is_dead(courier: Courier, tenant: str) -> None:
    courier.ok("queues", "create", "dead")
    courier.ok("queues", "create", "work", "--max-attempts", 1, "--dead-letter-queue", "dead")
    courier.ok("send", "work", "poison")
    (lease,) = courier.ok("receive", "work", "--json").json
    assert "that was its last attempt" in courier.ok("release", "work", lease["receipt"]).out
    assert "died in work after 1 attempt: attempts exhausted" in courier.ok("browse", "dead", "--full").out
    assert courier.ok("queues", "redrive", "dead").out == "redrove 1 message\n"
    assert courier.ok("receive", "work", "--raw").out == "poison\n"


def test_a_receiver_waits_for_a_message(courier: Courier, queue: str) -> None:
    with courier.running("receive", queue, "--wait", "50s", "--raw", "--ack") as receiver:
        courier.ok("send", queue, "at last")
        assert receiver.communicate(timeout=50)[0] == "at last\n"
        assert receiver.returncode == 0


def test_browsing_takes_nothing_away(courier: Courier, queue: str) -> None:
    courier.ok("send", queue, "one\ntwo", "-a", "region=eu")
    courier.ok("send", queue, "later", "--delay", "1h", "-a", "region=us", "-a", "n=5")
    table = courier.ok("browse", queue)
    assert [line.split()[-1] for line in table.lines] == ["BODY", "one⏎two", "later"]
    assert [m["body"] for m in courier.ok("browse", queue, "--json").json] == ["one\ntwo", "later"]
    for wanted in (["--attribute", "n=5"], ["--attribute", "region=us"], ["--state", "delayed"]):
        assert [m["body"] for m in courier.ok("browse", queue, *wanted, "--json").json] == ["later"]
    assert courier.ok("browse", queue, "-n", 1).err == "there are more; see them with --limit 10\n"


def test_more_messages_can_be_browsed_than_a_page_holds(courier: Courier, queue: str) -> None:
    courier.ok("send", queue, "x", "--repeat", 1_100)
    assert len(courier.ok("browse", queue, "-n", 2_000, "--json").json) == 1_100


def test_a_delayed_message_can_be_taken_back(courier: Courier, queue: str) -> None:
    courier.ok("send", queue, "x", "--id", "oops/1", "--delay", "1h")
    assert courier.ok("cancel", queue, "oops/1").out == "cancelled oops/1\n"
    assert courier("cancel", queue, "oops/1").code == 3


def test_what_is_printed_cannot_harm_the_terminal(courier: Courier, queue: str) -> None:
    courier.ok("send", queue, "\x1b[2Jboo")
    assert "\x1b" not in courier.ok("browse", queue).out + courier.ok("receive", queue).out
