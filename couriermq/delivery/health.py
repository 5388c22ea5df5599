"""How a listener's health changes with what happens, and when it is so bad that the listener is disabled."""

from msgspec.structs import replace

from couriermq.core.model import DAY
from couriermq.delivery.model import Answer, Health, Liveness

DOWN_COUNT = 3
"""Liveness checks that fail in a row before a receiver counts as down."""
DISABLE_COUNT = 10
"""A listener with little to deliver is not disabled for a handful of failures, however far apart."""


def after_delivery(health: Health, answer: Answer, *, delivered: bool, now: int) -> Health:
    if delivered:
        return replace(
            health, success_count=health.success_count + 1, failure_run=0, failing_since=None, last_success_at=now
        )
    return replace(
        health,
        failure_count=health.failure_count + 1,
        failure_run=health.failure_run + 1,
        failing_since=now if health.failing_since is None else health.failing_since,
        last_failure_at=now,
        last_failure_status=answer.status,
        last_failure_error=answer.error,
    )


def after_check(health: Health, answer: Answer, *, now: int) -> Health:
    """A receiver lives when it answers, whatever it says short of a server's error."""
    if answer.status is not None and answer.status < 500:
        return replace(
            health, liveness=Liveness.STABLE, live_count=health.live_count + 1, lifeless_run=0, last_live_at=now
        )
    run = health.lifeless_run + 1
    return replace(
        health,
        liveness=Liveness.DOWN if run >= DOWN_COUNT else Liveness.UNSTABLE,
        lifeless_count=health.lifeless_count + 1,
        lifeless_run=run,
        last_lifeless_at=now,
        last_lifeless_status=answer.status,
        last_lifeless_error=answer.error,
    )


def afresh(health: Health) -> Health:
    """As if the receiver had not failed lately: somebody has set the listener going again."""
    return replace(health, failure_run=0, failing_since=None)


def hopeless(health: Health, *, disable_ms: int, now: int) -> str | None:
    """Why a listener is to be disabled, if it is: nothing but failures, many of them, for days."""
    if health.failing_since is None or health.failure_run < DISABLE_COUNT:
        return None
    failing_ms = now - health.failing_since
    if failing_ms < disable_ms:
        return None
    days = f"{failing_ms / DAY:.1f}".removesuffix(".0")
    last = health.last_failure_error or f"status {health.last_failure_status}"
    return f"nothing but failures for {days} days ({health.failure_run} attempts), the last: {last}"
