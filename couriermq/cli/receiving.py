"""`courier receive`, and what settles what it has leased: `ack`, `release`, `extend`."""

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from couriermq.cli.client import body_of, sentence_of
from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.exits import Exit, usage
from couriermq.cli.messages import show_message
from couriermq.cli.options import Duration, Flag, QueueName, Receipts
from couriermq.cli.quantities import show_age, show_instant
from couriermq.clock import SystemClock

POLL_MS = 20_000
"""How long one request waits; a longer wait is several of them."""
BATCH = 1_000

Json = dict[str, Any]


def receive(
    queue: QueueName,
    /,
    *,
    limit: Annotated[int, Parameter(alias="-n")] = 1,
    lease: Duration | None = None,
    wait: Duration = 0,
    ack: Flag = False,
    raw: Flag = False,
    remote: Remote = REMOTE,
) -> int:
    """Lease messages and show them with the receipts that settle them.

    Parameters
    ----------
    limit
        How many at most.
    lease
        How long to hold them. [default: as the queue says]
    wait
        How long to wait for the first one. [default: 0s]
    ack
        Ack them once they are shown.
    raw
        Print only the bodies, byte for byte, each followed by a newline.
    """
    leases = _lease(remote, queue, {"limit": limit} | ({} if lease is None else {"lease_ms": lease}), wait)
    _show(remote, leases, raw=raw, with_receipts=not ack)
    sys.stdout.flush()  # what could not be shown must not be acked
    if not leases:
        remote.screen.note(f"nothing to receive from {queue}")
    return _ack_shown(remote, queue, leases) if ack else Exit.OK


def _lease(remote: Remote, queue: str, order: Json, wait_ms: int) -> list[Json]:
    clock = SystemClock()
    until = clock.now() + wait_ms
    while True:
        wait_ms = max(0, min(until - clock.now(), POLL_MS))
        answer = remote.client.post(remote.queue(queue, "receive"), order | {"wait_ms": wait_ms}, wait_s=wait_ms / 1000)
        leases: list[Json] = answer["leases"]
        if leases or clock.now() >= until:
            return leases


def _show(remote: Remote, leases: list[Json], *, raw: bool, with_receipts: bool) -> None:
    if remote.json:
        remote.screen.document(leases)
        return
    now = SystemClock().now()
    for lease in leases:
        if raw:
            sys.stdout.buffer.write(body_of(lease["message"]) + b"\n")
        else:
            left = ("lease ends in", show_age(lease["expires_at"] - now))
            extra = (left, ("receipt", lease["receipt"])) if with_receipts else ()
            show_message(remote.screen, lease["message"], now=now, extra=extra)
    sys.stdout.buffer.flush()


def ack(queue: QueueName, /, *receipts: Receipts, remote: Remote = REMOTE) -> int:
    """Say that leased messages are done; they are gone for good."""
    return _settle_all(remote, queue, "ack", receipts, {})


def release(queue: QueueName, /, *receipts: Receipts, delay: Duration | None = None, remote: Remote = REMOTE) -> int:
    """Give leased messages back as failed attempts.

    Parameters
    ----------
    delay
        Let them wait this long before the next attempt. [default: as the queue says]
    """
    return _settle_all(remote, queue, "release", receipts, {} if delay is None else {"delay_ms": delay})


def extend(queue: QueueName, /, *receipts: Receipts, lease: Duration, remote: Remote = REMOTE) -> int:
    """Hold leased messages for longer.

    Parameters
    ----------
    lease
        How long to hold them, from now.
    """
    return _settle_all(remote, queue, "extend", receipts, {"lease_ms": lease})


def _ack_shown(remote: Remote, queue: str, leases: list[Json]) -> int:
    results = _settle(remote, queue, "ack", [lease["receipt"] for lease in leases], {})
    return _complain(remote, leases, results)


def _read_receipts(text: str) -> list[str]:
    """Receipts as people write them, one a word, or the leases as `receive --json` shows them."""
    if not text.lstrip().startswith("["):
        return text.split()
    try:
        return [lease["receipt"] for lease in json.loads(text)]
    except (ValueError, TypeError, KeyError):
        raise usage("standard input must be receipts, or what `courier receive --json` has shown") from None


def _settle_all(remote: Remote, queue: str, verb: str, receipts: tuple[str, ...], order: Json) -> int:
    given = _read_receipts(sys.stdin.read()) if receipts == ("-",) else list(receipts)
    if not given and not receipts:
        raise usage("which messages? give their receipts, or - to read them from standard input")
    results = _settle(remote, queue, verb, given, order)
    if remote.json:
        remote.screen.document(results)
    else:
        for result in results:
            if "error" not in result:
                remote.screen.line(_outcome(verb, result))
    return _complain(remote, given, results)


def _settle(remote: Remote, queue: str, verb: str, receipts: list[str], order: Json) -> list[Json]:
    results: list[Json] = []
    for start in range(0, len(receipts), BATCH):
        batch = order | {"receipts": receipts[start : start + BATCH]}
        results.extend(remote.client.post(remote.queue(queue, verb), batch)["results"])
    return results


def _outcome(verb: str, result: Json) -> str:
    if verb == "extend":
        return f"extended {result['id']} until {show_instant(result['expires_at'])}"
    if result.get("dead"):
        return f"released {result['id']}; that was its last attempt, so it is dead"
    return f"{verb}ed {result['id']}" if verb == "ack" else f"released {result['id']}"


def _complain(remote: Remote, asked: Sequence[object], results: list[Json]) -> int:
    """One sentence for each settlement that failed."""
    failed = [(number, result["error"]) for number, result in enumerate(results, 1) if "error" in result]
    for number, error in failed:
        which = "" if len(asked) == 1 else f"receipt {number}: "
        remote.screen.warn(which + sentence_of(error))
    return Exit.FAILED if failed else Exit.OK
