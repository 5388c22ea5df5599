"""Commands that follow what happens: journal and tail, on a pipe and on a terminal."""

import json
import os
import pty
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import COMMAND, Courier
from tests.support.relay import relay

pytestmark = pytest.mark.slow


@pytest.fixture
def queue(courier: Courier, tenant: str) -> str:
    courier.ok("queues", "create", "orders")
    return "orders"


def test_the_journal_tells_what_happened_in_order(courier: Courier, tenant: str, queue: str) -> None:
    courier.ok("send", queue, "x")
    courier.ok("receive", queue, "--ack")
    events = [json.loads(line) for line in courier.ok("journal", "--tenant", tenant, "--queue", queue, "--json").lines]
    assert [event["kind"] for event in events] == ["queue_added", "sent", "received", "acked"]
    assert sorted(event["offset"] for event in events) == [event["offset"] for event in events]
    line = courier.ok("journal", "--tenant", tenant, "--kind", "acked").out
    assert line.split()[3:5] == ["acked", f"{tenant}/orders"]
    assert line.rstrip().endswith("attempt 1, by root")


def test_why_prints_findings_and_fixes_and_fails_where_one_is_critical(courier: Courier, queue: str) -> None:
    healthy = courier.ok("why", queue)
    assert (healthy.out, healthy.err.strip()) == ("", "nothing keeps messages from getting through")
    courier.ok("queues", "pause", queue)
    courier.ok("send", queue, "x")
    lines = courier.ok("why").lines
    assert lines[0].startswith("warning   orders: The queue is paused")
    assert lines[1].strip().startswith("Resume the queue: PATCH /courier/v1/tenants/")
    assert courier.ok("why", queue, "--json").json["findings"][0]["code"] == "paused"
    courier.ok("queues", "resume", queue)
    courier.ok("send", queue, "x", "--repeat", 5)
    courier.ok("receive", queue, "--limit", 6, "--lease", "1ms")
    critical = courier("why", queue)
    assert (critical.code, critical.lines[0].split()[0]) == (1, "critical")
    assert "6 of 6 leases" in critical.lines[0]


def test_the_journal_starts_and_stops_where_it_is_told(courier: Courier, queue: str) -> None:
    courier.ok("send", queue, "x", "--repeat", 5)
    first = json.loads(courier.ok("journal", "--from", 0, "-n", 1, "--json").out)
    assert first["offset"] == 0
    assert len(courier.ok("journal", "--last", 3).lines) == 3
    assert courier.ok("journal", "--from", 10**12).out == ""


@pytest.mark.parametrize("wrong", ["--last", "--from", "--limit"])
def test_a_negative_number_of_events_is_rejected(courier: Courier, wrong: str) -> None:
    run = courier("journal", wrong, "-5")
    assert run.code == 2
    assert f"{wrong} is -5; choose a number from" in run.err
    assert run.out == ""


def test_a_followed_journal_goes_on_until_interrupted(courier: Courier, tenant: str, queue: str) -> None:
    with courier.running("journal", "--follow", "--tenant", tenant, "--kind", "sent", "--json") as journal:
        assert journal.stdout is not None
        assert journal.stderr is not None
        courier.ok("send", queue, "x", "--id", "m1")
        assert json.loads(journal.stdout.readline())["message_id"] == "m1"
        journal.send_signal(signal.SIGINT)
        assert (journal.wait(30), journal.stderr.read()) == (130, "")


def test_a_tail_tells_each_event_of_its_queue_on_a_line(courier: Courier, tenant: str, queue: str) -> None:
    courier.ok("queues", "create", "other")
    with courier.running("tail", queue, "--last", 1_000) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert "queue_added" in tail.stdout.readline()
        courier.ok("send", "other", "x", "--id", "not-ours")
        courier.ok("send", queue, "x", "--id", "m1")
        assert tail.stdout.readline().split()[1:3] == ["sent", "m1"]
        courier.ok("receive", queue, "--ack")
        assert [tail.stdout.readline().split()[1] for _ in range(2)] == ["received", "acked"]
        tail.send_signal(signal.SIGINT)
        assert (tail.wait(30), tail.stderr.read()) == (130, "")


def test_a_credential_for_the_figures_of_one_queue_can_follow_it(courier: Courier, tenant: str, queue: str) -> None:
    courier.ok("queues", "create", "other")
    made = json.loads(courier.ok("credentials", "create", "watcher", "--may", f"stats:{queue}", "--json").out)
    watcher = Courier(**courier.environ | {"COURIER_TOKEN": made["secret"]})
    with watcher.running("tail", queue, "--last", 1_000, "--json") as tail:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["kind"] == "queue_added"
        courier.ok("send", "other", "x")
        courier.ok("send", queue, "body", "--id", "m1")
        event = json.loads(tail.stdout.readline())
        assert (event["kind"], event["message_id"]) == ("sent", "m1")
        assert "body" not in str(event["detail"])
    assert watcher("tail", "other").code != 0


def test_a_tail_shows_messages_that_come_from_another_queue(courier: Courier, tenant: str, queue: str) -> None:
    courier.ok("queues", "create", "failed")
    courier.ok("queues", "change", queue, "--max-attempts", 1, "--dead-letter-queue", "failed")
    tails = [courier.running("tail", name, "--last", 1_000) for name in ("failed", queue)]
    with tails[0] as failed, tails[1] as tail:
        assert failed.stdout is not None
        assert tail.stdout is not None
        assert "queue_added" in failed.stdout.readline()
        assert "queue_added" in tail.stdout.readline()
        courier.ok("send", queue, "x", "--id", "m1")
        receipt = courier.ok("receive", queue, "--json").json[0]["receipt"]
        courier.ok("release", queue, receipt)
        line = next(line for line in failed.stdout if "m1" in line)
        assert line.split()[1:3] == ["dead_lettered", "m1"]
        assert "from orders, attempt 1, reason attempts exhausted" in line
        courier.ok("queues", "redrive", "failed")
        line = next(line for line in tail.stdout if "redriven" in line)
        assert "m1  from failed" in line
        courier.ok("queues", "move", queue, "failed")
        line = next(line for line in failed.stdout if "moved" in line)
        assert "m1  from orders" in line


def test_a_tail_asks_for_its_own_queue_only_and_for_no_body_that_it_does_not_show(
    courier: Courier, tenant: str, queue: str
) -> None:
    courier.ok("queues", "create", "other")
    courier.ok("send", "other", "-", "--repeat", 5, stdin=b"x" * 1_000_000)
    courier.ok("send", queue, "-", "--id", "the-order", stdin=b"y" * 1_000_000)
    with relay(courier.environ["COURIER_URL"]) as way:
        watcher = Courier(**courier.environ | {"COURIER_URL": way.url})
        with watcher.running("tail", queue, "--last", 1_000) as tail:
            assert tail.stdout is not None
            assert "sent" in next(line for line in tail.stdout if "the-order" in line)
        assert 0 < way.byte_count < 10_000


def test_a_tail_of_a_queue_that_is_not_there_is_not_found(courier: Courier, tenant: str) -> None:
    assert courier("tail", "nowhere").code == 3


def test_a_reader_that_leaves_ends_the_command_quietly(courier: Courier, tenant: str, queue: str) -> None:
    courier.ok("send", queue, "x", "--repeat", 3_000)
    with courier.running("journal", "--tenant", tenant, "--follow") as journal:
        assert journal.stdout is not None
        assert journal.stderr is not None
        journal.stdout.readline()
        journal.stdout.close()
        courier.ok("send", queue, "x", "--repeat", 3_000)
        assert (journal.wait(30), journal.stderr.read()) == (141, "")


class Terminal:
    """A terminal of 80 columns, as far as a program can tell."""

    def __init__(self, descriptor: int, process: "subprocess.Popen[bytes]") -> None:
        self._descriptor = descriptor
        self.process = process
        self.text = ""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def until(self, wanted: str) -> str:
        """Everything shown so far, once `wanted` is part of it."""
        while wanted not in self.text:
            assert select.select([self._descriptor], [], [], 30)[0], f"{wanted!r} never came: {self.text!r}"
            try:
                shown = os.read(self._descriptor, 65_536)
            except OSError:  # the other side is closed
                shown = b""
            assert shown, f"{wanted!r} never came: {self.text!r}"
            self.text += shown.decode()
        return self.text


@contextmanager
def terminal(courier: Courier, *arguments: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    environ = courier.environ | {"COLUMNS": "80", "LINES": "24", "TERM": "xterm"}
    with subprocess.Popen([*COMMAND, *arguments], env=environ, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        try:
            yield Terminal(ours, process)
        finally:
            if process.poll() is None:
                process.kill()
            os.close(ours)


def test_a_terminal_gets_colours_and_a_table_of_its_width(courier: Courier, queue: str) -> None:
    courier.ok("send", queue, "y" * 300)
    with terminal(courier, "browse", queue) as screen:
        text = screen.until("…")
        assert screen.process.wait(30) == 0
    assert "\x1b[32mready" in text
    assert "y" * 80 not in text


def test_a_pipe_gets_no_colours(courier: Courier, queue: str) -> None:
    courier.ok("send", queue, "x")
    assert "\x1b" not in courier.ok("browse", queue).out + courier.ok("queues", "list").out


def test_a_tail_on_a_terminal_is_a_table_that_renews_itself(courier: Courier, queue: str) -> None:
    with terminal(courier, "tail", queue) as screen:
        screen.until("nothing has happened yet")
        courier.ok("send", queue, "x", "--id", "m1")
        screen.until("m1")
        screen.until("1 ready")
        screen.process.send_signal(signal.SIGINT)
        assert screen.process.wait(30) == 130


def test_a_person_is_asked_before_anything_is_lost(courier: Courier, queue: str) -> None:
    with terminal(courier, "queues", "delete", queue) as screen:
        screen.until("[y/N]")
        screen.type("n\n")
        screen.until("left as it is")
        assert screen.process.wait(30) == 1
    with terminal(courier, "queues", "delete", queue) as screen:
        screen.until("[y/N]")
        screen.type("y\n")
        screen.until("deleted queue orders")
    assert courier("queues", "show", queue).code == 3


def test_a_person_sees_how_far_a_long_send_has_come(courier: Courier, queue: str) -> None:
    with terminal(courier, "send", queue, "x", "--repeat", "2000") as screen:
        screen.until("sending")
        screen.until("sent 2,000 messages")
        assert screen.process.wait(30) == 0
