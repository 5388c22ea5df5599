"""Why a queue is stuck: a pure function from facts to findings, each with its evidence and a fix."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from couriermq.core.limits import LEASE_MS, LEASED_COUNT, RETENTION_MS
from couriermq.core.model import DAY, HOUR, MINUTE, SECOND, Counters, Json, Kind, ListenerState, QueueSettings, State

QUIET_MS = 5 * MINUTE
"""A queue with ready messages from which nobody has received for so long has no receivers."""
FEW = 5
"""Leases that must have ended before their shares say anything."""
MOST = 0.8
"""The share of leases that makes a finding of how they ended."""
MANY_ATTEMPTS = 20
"""Attempts of one message that are worth a look where nothing limits them."""
LAST_ATTEMPTS = 2
SOON_SHARE = 0.1
"""The share of its retention that is left to a message which will be discarded soon."""
HEAD_COUNT = 20
"""The oldest messages of a queue that are looked at."""
HEAD_BYTES = 256 * 1024
"""About what they may have together where many queues are looked at: they are read with their bodies."""
CLAIM_MS = 10 * MINUTE
"""A claim that is older may belong to a job that has stopped."""


class Level(StrEnum):
    CRITICAL = "critical"
    """Nothing gets through, or messages are being lost."""
    WARNING = "warning"
    INFO = "info"


class Fix(msgspec.Struct, frozen=True):
    """A call of the native API; `path` begins behind the queue's or the listener's own."""

    title: str
    method: str
    path: str
    body: dict[str, Json] | None = None


class Finding(msgspec.Struct, frozen=True):
    """One reason, as a sentence with the figures that it rests on."""

    code: str
    level: Level
    sentence: str
    evidence: Mapping[str, int | float | str] = {}
    fix: Fix | None = None


class Head(msgspec.Struct, frozen=True):
    """One of the oldest messages of a queue."""

    seq: int
    state: State
    attempts: int
    due_at: int
    discard_at: int
    group: str | None = None


class HeldByJob(msgspec.Struct, frozen=True):
    """What a job holds of the queue through claims."""

    name: str
    count: int
    claimed_at: int


class ListenerFacts(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    state: ListenerState
    reason: str | None = None
    is_open: bool = False
    """Whether its circuit breaker holds deliveries back."""
    is_down: bool = False
    """Whether its liveness checks fail."""
    failure_run: int = 0
    failing_since: int | None = None
    last_error: str | None = None
    waiting_count: int = 0
    dead_count: int = 0


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a queue at one instant. `hour` counts what has happened within the last hour, by kind."""

    now: int
    kind: Kind
    settings: QueueSettings
    counters: Counters
    hour: Mapping[str, int]
    known_from: int
    """The instant from which on `hour` counts; within the last hour where the server has just started."""
    last_received_at: int | None = None
    waiting_count: int = 0
    """Receivers that wait for a message at this moment."""
    heads: Sequence[Head] = ()
    jobs: Sequence[HeldByJob] = ()
    listeners: Sequence[ListenerFacts] = ()
    dead_letter_queue: str | None = None
    """Its name."""
    dead_letter_count: int = 0


def head_count(counters: Counters) -> int:
    """How many of a queue's oldest messages to look at, one of many queues: fewer where they are large on average."""
    average = counters.byte_count // max(1, counters.total_count)
    return max(1, min(HEAD_COUNT, HEAD_BYTES // max(1, average)))


def diagnose(facts: Facts) -> list[Finding]:
    """What keeps messages from getting through, the worst first."""
    found = [finding for rule in RULES for finding in rule(facts)]
    return sorted(found, key=lambda finding: list(Level).index(finding.level))


def _paused(facts: Facts) -> Iterator[Finding]:
    counters = facts.counters
    if facts.settings.paused:
        level = Level.WARNING if counters.total_count else Level.INFO
        yield Finding(
            "paused", level,
            f"The queue is paused: it accepts messages and gives none. {_messages(counters.total_count)} wait.",
            {"waiting_count": counters.total_count},
            Fix("Resume the queue", "PATCH", "", {"settings": {"paused": False}}),
        )  # fmt: skip


def _nobody_receives(facts: Facts) -> Iterator[Finding]:
    counters, last = facts.counters, facts.last_received_at
    idle_from = max(last or 0, counters.oldest_at or facts.now)
    if (
        facts.settings.paused or facts.waiting_count or counters.leased_count or not counters.ready_count
        or facts.now - idle_from < QUIET_MS
    ):  # fmt: skip
        return
    since = f"for {_duration(facts.now - last)}" if last else "as far as the journal goes back"
    evidence = {"ready_count": counters.ready_count, "oldest_age_ms": facts.now - (counters.oldest_at or facts.now)}
    if last:
        evidence["last_received_at"] = last
    if facts.listeners:
        yield Finding(
            "kept_for_receivers", Level.INFO,
            f"{_messages(counters.ready_count)} wait for receivers, and nobody has received {since}. The queue has"
            " listeners; with keep_delivered a message stays here after they have got it.",
            evidence, Fix("Remove messages once delivered", "PATCH", "", {"settings": {"keep_delivered": False}}),
        )  # fmt: skip
    else:
        yield Finding(
            "no_receivers", Level.CRITICAL,
            f"{_messages(counters.ready_count)} are ready, and nobody has received {since}. No receiver waits now:"
            " start one, or check that it uses this queue's name and a credential with the scope receive.",
            evidence,
        )  # fmt: skip


def _limit_reached(facts: Facts) -> Iterator[Finding]:
    counters, most = facts.counters, facts.settings.max_leased
    if facts.settings.paused or most is None or not counters.ready_count or counters.leased_count < most:
        return
    held = sum(job.count for job in facts.jobs)
    holders = f", {held} of them by jobs, whose claims do not expire" if held else ""
    is_moving = facts.hour.get("acked", 0) > 0
    yield Finding(
        "limit_reached", Level.INFO if is_moving else Level.WARNING,
        f"max_leased is reached: {_messages(counters.leased_count)} are leased{holders}, and the queue gives no more"
        f" than {most} at the same time. {_messages(counters.ready_count)} wait until some are acked or released, or"
        " their leases expire. Where the receivers can take more, raise the limit.",
        {"max_leased": most, "leased_count": counters.leased_count, "ready_count": counters.ready_count}
        | ({"held_count": held} if held else {}),
        Fix("Double the limit", "PATCH", "", {"settings": {"max_leased": min(2 * most, LEASED_COUNT)}}),
    )  # fmt: skip


def _leases_expire(facts: Facts) -> Iterator[Finding]:
    expired, ended = facts.hour.get("expired", 0), _ended(facts)
    if expired >= FEW and expired >= MOST * ended:
        lease_ms = facts.settings.lease_ms
        yield Finding(
            "leases_expire", Level.CRITICAL,
            f"Receivers take messages and do not settle them: {expired} of {ended} leases of the last hour expired"
            f" after {_duration(lease_ms)}. Either the work takes longer than the lease, or receivers fail before"
            " they ack.",
            {"expired_count": expired, "ended_count": ended, "lease_ms": lease_ms},
            Fix("Lease for twice as long", "PATCH", "", {"settings": {"lease_ms": min(2 * lease_ms, LEASE_MS)}}),
        )  # fmt: skip


def _all_released(facts: Facts) -> Iterator[Finding]:
    released, ended = facts.hour.get("released", 0), _ended(facts)
    if released >= FEW and released >= MOST * ended:
        yield Finding(
            "all_released", Level.CRITICAL,
            f"Receivers give messages back: {released} of {ended} leases of the last hour ended with a release. Look"
            " at the receivers' errors.",
            {"released_count": released, "ended_count": ended},
        )  # fmt: skip


def _all_delayed(facts: Facts) -> Iterator[Finding]:
    counters = facts.counters
    if not counters.delayed_count or counters.ready_count or counters.leased_count:
        return
    dues = [head.due_at for head in facts.heads if head.state is State.DELAYED]
    soon = f" The oldest of them is due in {_duration(min(dues) - facts.now)}." if dues else ""
    yield Finding(
        "all_delayed", Level.INFO,
        f"All {_messages(counters.delayed_count)} are delayed, by their senders or by a retry.{soon}",
        {"delayed_count": counters.delayed_count} | ({"due_at": min(dues)} if dues else {}),
    )  # fmt: skip


def _group_blocked(facts: Facts) -> Iterator[Finding]:
    if facts.kind is not Kind.FIFO or not facts.heads or not facts.counters.ready_count:
        return
    first = facts.heads[0]
    if first.state is State.READY:
        return
    behind = sum(head.group == first.group and head.state is State.READY for head in facts.heads)
    if behind:
        group = f"group {first.group!r}" if first.group else "the queue's only group"
        how = "is leased" if first.state is State.LEASED else "waits for its next attempt"
        yield Finding(
            "group_blocked", Level.WARNING,
            f"The first message of {group} (seq {first.seq}) {how} until {_duration(first.due_at - facts.now)} from"
            " now; messages behind it keep their order and wait.",
            {"seq": first.seq, "attempts": first.attempts, "due_at": first.due_at, "behind_count": behind},
        )  # fmt: skip


def _poison(facts: Facts) -> Iterator[Finding]:
    worst = max(facts.heads, key=lambda head: head.attempts, default=None)
    if worst is None:
        return
    most = facts.settings.max_attempts
    evidence: dict[str, int | float | str] = {"seq": worst.seq, "attempts": worst.attempts}
    if most is None and worst.attempts >= MANY_ATTEMPTS:
        yield Finding(
            "endless_attempts", Level.WARNING,
            f"The message with seq {worst.seq} has been tried {worst.attempts} times, and nothing limits its attempts:"
            " set max_attempts, and a dead letter queue that keeps what fails.",
            evidence, Fix("Limit attempts to 10", "PATCH", "", {"settings": {"max_attempts": 10}}),
        )  # fmt: skip
    elif most is not None and most > LAST_ATTEMPTS and most - worst.attempts < LAST_ATTEMPTS:
        fate = "moves to the dead letter queue" if facts.settings.dead_letter_queue else "is discarded"
        yield Finding(
            "poison", Level.INFO,
            f"The message with seq {worst.seq} is at attempt {worst.attempts} of {most}; it {fate} after the last.",
            evidence | {"max_attempts": most},
        )  # fmt: skip


def _held_by_jobs(facts: Facts) -> Iterator[Finding]:
    for job in facts.jobs:
        age = facts.now - job.claimed_at
        if job.count and age >= CLAIM_MS:
            yield Finding(
                "held_by_job", Level.WARNING,
                f"The job {job.name!r} has held {_messages(job.count)} for {_duration(age)}. Claims do not expire:"
                " run the job again, or free its claims if it will never run again.",
                {"held_count": job.count, "claimed_at": job.claimed_at},
                Fix("Free the job's claims", "DELETE", f"/jobs/{job.name}"),
            )  # fmt: skip


def _growing(facts: Facts) -> Iterator[Finding]:
    arrived = facts.hour.get("sent", 0) + facts.hour.get("arrived", 0)
    left = sum(facts.hour.get(name, 0) for name in ("acked", "dead_lettered", "discarded", "removed", "moved_out"))
    span = facts.now - max(facts.known_from, facts.now - HOUR)
    if span < QUIET_MS or left == 0 or arrived <= left * 1.1 or facts.counters.ready_count < 100:
        return
    grows = round((arrived - left) * HOUR / span)
    yield Finding(
        "growing", Level.WARNING,
        f"More messages arrive than leave: {arrived} against {left} in the last {_duration(span)}. The backlog grows"
        f" by about {grows} an hour and will not drain; add receivers or receive larger batches.",
        {"arrived_count": arrived, "left_count": left, "grows_per_hour": grows},
    )  # fmt: skip


def _discarded_soon(facts: Facts) -> Iterator[Finding]:
    ends = [head.discard_at for head in facts.heads]
    left = min(ends) - facts.now if ends else None
    if left is not None and left < SOON_SHARE * facts.settings.retention_ms:
        yield Finding(
            "discarded_soon", Level.CRITICAL if left < HOUR else Level.WARNING,
            f"The oldest message is discarded in {_duration(max(left, 0))}, when its retention ends.",
            {"discard_at": min(ends), "retention_ms": facts.settings.retention_ms},
            Fix("Double the retention", "PATCH", "",
                {"settings": {"retention_ms": min(2 * facts.settings.retention_ms, RETENTION_MS)}}),
        )  # fmt: skip


def _discarded(facts: Facts) -> Iterator[Finding]:
    count = facts.hour.get("discarded", 0)
    if count:
        without = facts.settings.dead_letter_queue is None
        rest = "The queue has no dead letter queue that would keep what fails." if without else "They were too old."
        yield Finding(
            "discarded", Level.CRITICAL,
            f"{_messages(count)} were discarded within the last hour. {rest}", {"discarded_count": count},
        )  # fmt: skip


def _dead_letters(facts: Facts) -> Iterator[Finding]:
    died = facts.hour.get("dead_lettered", 0)
    if died:
        target = f"the dead letter queue {facts.dead_letter_queue!r}" if facts.dead_letter_queue else "dead letters"
        yield Finding(
            "dying", Level.WARNING,
            f"{_messages(died)} ran out of attempts within the last hour and moved to {target}, which holds"
            f" {facts.dead_letter_count}.",
            {"dead_count": died, "dead_letter_count": facts.dead_letter_count},
        )  # fmt: skip


def _listeners(facts: Facts) -> Iterator[Finding]:
    for listener in facts.listeners:
        yield from _listener(facts, listener)


def _listener(facts: Facts, listener: ListenerFacts) -> Iterator[Finding]:
    waiting = {"waiting_count": listener.waiting_count}
    path = f"/listeners/{listener.id}"
    if listener.state is ListenerState.DISABLED:
        yield Finding(
            "listener_disabled", Level.CRITICAL,
            f"Courier has disabled the listener {listener.name!r}: {listener.reason or 'no reason was noted'}."
            f" {_messages(listener.waiting_count)} wait for it.",
            waiting, Fix("Enable the listener", "POST", f"{path}/resume"),
        )  # fmt: skip
    elif listener.state is ListenerState.PAUSED:
        yield Finding(
            "listener_paused", Level.WARNING if listener.waiting_count else Level.INFO,
            f"The listener {listener.name!r} is paused. {_messages(listener.waiting_count)} wait for it.",
            waiting, Fix("Resume the listener", "POST", f"{path}/resume"),
        )  # fmt: skip
    elif listener.is_open or listener.is_down:
        why = "its liveness checks fail" if listener.is_down else f"{listener.failure_run} attempts in a row failed"
        last = f" The last error: {listener.last_error}." if listener.last_error else ""
        yield Finding(
            "listener_failing", Level.CRITICAL,
            f"Deliveries to the listener {listener.name!r} are held back because {why}.{last}"
            f" {_messages(listener.waiting_count)} wait for it; Courier tries again by itself.",
            waiting | {"failure_run": listener.failure_run}
            | ({"failing_since": listener.failing_since} if listener.failing_since else {}),
        )  # fmt: skip
    if listener.dead_count:
        yield Finding(
            "listener_dead_letters", Level.WARNING,
            f"{_messages(listener.dead_count)} could not be delivered to the listener {listener.name!r} and are kept"
            " as its dead letters; replay them once it works.",
            {"dead_letter_count": listener.dead_count},
            Fix("Deliver them again", "POST", f"{path}/replay", {"missed": True}),
        )  # fmt: skip


RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _paused, _nobody_receives, _limit_reached, _leases_expire, _all_released, _discarded, _listeners, _group_blocked,
    _held_by_jobs, _growing, _discarded_soon, _dead_letters, _poison, _all_delayed,
)  # fmt: skip


def _ended(facts: Facts) -> int:
    """Leases of the last hour that have ended, in whichever way."""
    return sum(facts.hour.get(name, 0) for name in ("acked", "released", "expired"))


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def _duration(ms: int) -> str:
    """In the largest unit that gives at least two, so that a reader need not convert."""
    for unit, size in (("day", DAY), ("hour", HOUR), ("minute", MINUTE), ("second", SECOND)):
        if ms >= 2 * size or (ms >= size and size is SECOND):
            count = ms // size
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    return f"{max(ms, 0)} ms"
