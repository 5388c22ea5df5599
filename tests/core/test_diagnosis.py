"""Every rule of the diagnosis: when it speaks, when it does not, and what it proposes."""

from typing import Any

import pytest

from couriermq.core.diagnosis import Facts, Finding, Head, HeldByJob, Level, ListenerFacts, diagnose, head_count
from couriermq.core.limits import LEASE_MS, LEASED_COUNT
from couriermq.core.model import DAY, HOUR, MINUTE, SECOND, Counters, Kind, ListenerState, QueueSettings, State

NOW = 1_000 * DAY
READY = Counters(ready_count=3, oldest_at=NOW - HOUR)


def facts(**given: Any) -> Facts:
    """A queue that somebody receives from and in which nothing is wrong, with what a test changes."""
    known: dict[str, Any] = {
        "now": NOW,
        "kind": Kind.STANDARD,
        "settings": QueueSettings(),
        "counters": Counters(ready_count=1, oldest_at=NOW - SECOND),
        "hour": {"sent": 100, "received": 100, "acked": 100},
        "known_from": NOW - HOUR,
        "last_received_at": NOW - SECOND,
    }
    return Facts(**known | given)


def head(seq: int = 1, **given: Any) -> Head:
    known = {"state": State.READY, "attempts": 0, "due_at": NOW, "discard_at": NOW + 3 * DAY}
    return Head(seq, **known | given)


def listener(**given: Any) -> ListenerFacts:
    known: dict[str, Any] = {"id": "L", "name": "shop", "state": ListenerState.ACTIVE, "waiting_count": 4}
    return ListenerFacts(**known | given)


def found(code: str, **given: Any) -> Finding:
    return next(finding for finding in diagnose(facts(**given)) if finding.code == code)


def codes(**given: Any) -> list[str]:
    return [finding.code for finding in diagnose(facts(**given))]


def test_nothing_is_said_of_a_queue_that_works() -> None:
    assert codes(heads=[head()], listeners=[listener()], jobs=[HeldByJob("etl", 5, NOW - SECOND)]) == []


def test_a_paused_queue_is_resumed_by_a_call() -> None:
    finding = found("paused", settings=QueueSettings(paused=True), counters=READY)
    assert finding.level is Level.WARNING
    assert finding.fix is not None
    assert (finding.fix.method, finding.fix.body) == ("PATCH", {"settings": {"paused": False}})
    assert "3 messages wait" in finding.sentence
    assert found("paused", settings=QueueSettings(paused=True), counters=Counters()).level is Level.INFO


@pytest.mark.parametrize(
    ("given", "speaks"),
    [
        ({}, True),
        ({"last_received_at": NOW - 10 * MINUTE}, True),
        ({"last_received_at": NOW - MINUTE}, False),
        ({"waiting_count": 1}, False),
        ({"counters": Counters(ready_count=3, leased_count=1, oldest_at=NOW - HOUR)}, False),
        ({"counters": Counters(ready_count=3, oldest_at=NOW - MINUTE)}, False),
        ({"counters": Counters(delayed_count=3, oldest_at=NOW - HOUR)}, False),
        ({"settings": QueueSettings(paused=True)}, False),
    ],
)
def test_nobody_receives_where_messages_are_ready_and_nobody_has_come_for_long(
    given: dict[str, Any], speaks: bool
) -> None:
    known = {"counters": READY, "last_received_at": None} | given
    assert ("no_receivers" in codes(**known)) is speaks


def test_messages_that_listeners_have_got_and_that_stay_are_no_alarm() -> None:
    finding = found("kept_for_receivers", counters=READY, last_received_at=None, listeners=[listener()])
    assert finding.level is Level.INFO
    assert finding.fix is not None
    assert finding.fix.body == {"settings": {"keep_delivered": False}}


FULL = Counters(ready_count=3, leased_count=2, oldest_at=NOW - SECOND)


@pytest.mark.parametrize(
    ("given", "speaks"),
    [
        ({}, True),
        ({"counters": Counters(ready_count=3, leased_count=5, oldest_at=NOW)}, True),
        ({"counters": Counters(ready_count=3, leased_count=1, oldest_at=NOW)}, False),
        ({"counters": Counters(leased_count=2, oldest_at=NOW)}, False),
        ({"settings": QueueSettings()}, False),
        ({"settings": QueueSettings(max_leased=2, paused=True)}, False),
    ],
)
def test_a_limit_of_leases_is_told_of_where_it_keeps_ready_messages_back(given: dict[str, Any], speaks: bool) -> None:
    known = {"settings": QueueSettings(max_leased=2), "counters": FULL} | given
    assert ("limit_reached" in codes(**known)) is speaks


def test_a_limit_of_leases_is_doubled_by_a_call() -> None:
    finding = found("limit_reached", settings=QueueSettings(max_leased=2), counters=FULL, hour={})
    assert finding.level is Level.WARNING
    assert finding.evidence == {"max_leased": 2, "leased_count": 2, "ready_count": 3}
    assert finding.fix is not None
    assert (finding.fix.method, finding.fix.body) == ("PATCH", {"settings": {"max_leased": 4}})
    assert "3 messages wait" in finding.sentence
    most = QueueSettings(max_leased=LEASED_COUNT)
    full = Counters(ready_count=1, leased_count=LEASED_COUNT, oldest_at=NOW)
    highest = found("limit_reached", settings=most, counters=full)
    assert highest.fix is not None
    assert highest.fix.body == {"settings": {"max_leased": LEASED_COUNT}}


def test_a_limit_of_leases_that_receivers_work_at_is_no_alarm() -> None:
    finding = found("limit_reached", settings=QueueSettings(max_leased=2), counters=FULL, hour={"acked": 5})
    assert finding.level is Level.INFO


def test_a_limit_of_leases_that_jobs_use_up_names_them() -> None:
    jobs = [HeldByJob("etl", 1, NOW - SECOND)]
    finding = found("limit_reached", settings=QueueSettings(max_leased=2), counters=FULL, jobs=jobs)
    assert finding.evidence["held_count"] == 1
    assert "1 of them by jobs" in finding.sentence


def test_leases_that_mostly_expire_are_too_short() -> None:
    finding = found("leases_expire", hour={"acked": 1, "expired": 9})
    assert "9 of 10 leases" in finding.sentence
    assert "30 seconds" in finding.sentence
    assert finding.fix is not None
    assert finding.fix.body == {"settings": {"lease_ms": 60 * SECOND}}
    assert "leases_expire" not in codes(hour={"acked": 5, "expired": 9})
    assert "leases_expire" not in codes(hour={"expired": 4})
    longest = found("leases_expire", hour={"expired": 9}, settings=QueueSettings(lease_ms=LEASE_MS))
    assert longest.fix is not None
    assert longest.fix.body == {"settings": {"lease_ms": LEASE_MS}}


def test_receivers_that_release_nearly_everything_are_found() -> None:
    assert found("all_released", hour={"acked": 1, "released": 9}).level is Level.CRITICAL
    assert "all_released" not in codes(hour={"acked": 5, "released": 9})


def test_a_queue_whose_messages_are_all_delayed_says_when_the_first_is_due() -> None:
    heads = [head(state=State.DELAYED, due_at=NOW + 2 * HOUR), head(2, state=State.DELAYED, due_at=NOW + 3 * MINUTE)]
    finding = found("all_delayed", counters=Counters(delayed_count=2, oldest_at=NOW), heads=heads)
    assert "due in 3 minutes" in finding.sentence
    assert "all_delayed" not in codes(counters=Counters(delayed_count=2, ready_count=1, oldest_at=NOW), heads=heads)


def test_a_fifo_group_waits_for_its_first_message() -> None:
    heads = [head(7, state=State.LEASED, due_at=NOW + MINUTE, group="a", attempts=2), head(8, group="a")]
    finding = found("group_blocked", kind=Kind.FIFO, heads=heads)
    assert finding.evidence == {"seq": 7, "attempts": 2, "due_at": NOW + MINUTE, "behind_count": 1}
    assert "group 'a'" in finding.sentence
    assert "group_blocked" not in codes(kind=Kind.STANDARD, heads=heads)
    assert "group_blocked" not in codes(kind=Kind.FIFO, heads=[heads[0], head(8, group="b")])


def test_attempts_without_a_limit_and_the_last_attempt_are_found() -> None:
    assert found("endless_attempts", heads=[head(attempts=1), head(2, attempts=500)]).evidence["seq"] == 2
    limited = QueueSettings(max_attempts=5)
    assert "4 of 5" in found("poison", heads=[head(attempts=4)], settings=limited).sentence
    assert codes(heads=[head(attempts=3)], settings=limited) == []
    assert codes(heads=[head(attempts=19)]) == []


def test_a_job_that_has_held_messages_for_long_is_freed_by_a_call() -> None:
    finding = found("held_by_job", jobs=[HeldByJob("etl", 5, NOW - HOUR)])
    assert finding.fix is not None
    assert (finding.fix.method, finding.fix.path) == ("DELETE", "/jobs/etl")


def test_a_backlog_that_grows_is_extrapolated() -> None:
    many = Counters(ready_count=5_000, oldest_at=NOW - MINUTE)
    finding = found("growing", counters=many, hour={"sent": 900, "arrived": 100, "acked": 400})
    assert finding.evidence["grows_per_hour"] == 600
    short = found("growing", counters=many, hour={"sent": 1_000, "acked": 400}, known_from=NOW - 10 * MINUTE)
    assert short.evidence["grows_per_hour"] == 3_600
    assert "growing" not in codes(counters=many, hour={"sent": 400, "acked": 400})


def test_the_end_of_the_retention_is_announced() -> None:
    day = QueueSettings(retention_ms=DAY)
    assert found("discarded_soon", settings=day, heads=[head(discard_at=NOW + 2 * HOUR)]).level is Level.WARNING
    soon = found("discarded_soon", settings=day, heads=[head(discard_at=NOW + 5 * MINUTE)])
    assert soon.level is Level.CRITICAL
    assert "in 5 minutes" in soon.sentence
    assert "discarded_soon" not in codes(settings=day, heads=[head(discard_at=NOW + 3 * HOUR)])


def test_lost_and_dead_messages_are_counted() -> None:
    assert "no dead letter queue" in found("discarded", hour={"discarded": 2}).sentence
    finding = found(
        "dying", hour={"dead_lettered": 2}, settings=QueueSettings(dead_letter_queue="D"),
        dead_letter_queue="failed", dead_letter_count=9,
    )  # fmt: skip
    assert "'failed', which holds 9" in finding.sentence


def test_listeners_that_are_stopped_or_fail_are_found() -> None:
    disabled = found("listener_disabled", listeners=[listener(state=ListenerState.DISABLED, reason="answered 410")])
    assert "answered 410" in disabled.sentence
    assert disabled.fix is not None
    assert disabled.fix.path == "/listeners/L/resume"
    assert found("listener_paused", listeners=[listener(state=ListenerState.PAUSED)]).level is Level.WARNING
    failing = found("listener_failing", listeners=[listener(is_open=True, failure_run=7, last_error="status 500")])
    assert "7 attempts in a row failed. The last error: status 500." in failing.sentence
    assert "liveness" in found("listener_failing", listeners=[listener(is_down=True)]).sentence
    assert found("listener_dead_letters", listeners=[listener(dead_count=2)]).evidence == {"dead_letter_count": 2}


def test_the_worst_comes_first() -> None:
    levels = [finding.level for finding in diagnose(facts(
        settings=QueueSettings(paused=True), hour={"discarded": 1},
        counters=Counters(delayed_count=1, oldest_at=NOW),
    ))]  # fmt: skip
    assert levels == [Level.CRITICAL, Level.WARNING, Level.INFO]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 ms"), (999, "999 ms"), (SECOND, "1 second"), (90 * SECOND, "90 seconds"), (2 * MINUTE, "2 minutes"),
     (90 * MINUTE, "90 minutes"), (47 * HOUR, "47 hours"), (2 * DAY, "2 days")],
)  # fmt: skip
def test_durations_are_told_in_the_unit_that_a_reader_expects(ms: int, text: str) -> None:
    heads = [head(state=State.DELAYED, due_at=NOW + ms)]
    counters = Counters(delayed_count=1, oldest_at=NOW)
    assert f"due in {text}." in found("all_delayed", counters=counters, heads=heads).sentence


@pytest.mark.parametrize(
    ("count", "size", "looked"), [(0, 0, 20), (5, 100, 20), (1_000, 10_000, 20), (50, 64_000, 4), (3, 2**26, 1)]
)
def test_fewer_heads_are_looked_at_where_messages_are_large(count: int, size: int, looked: int) -> None:
    assert head_count(Counters(ready_count=count, byte_count=count * size)) == looked
