"""`messages` and `queue_minutes` computed from the journal in plain Python, one event after the other."""

import bisect
import json
import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from couriermq.core.billing import billable_units

MINUTE = 60_000
ENDS = {"acked", "discarded", "purged", "cancelled"}
PASSES = {"dead_lettered", "moved", "redriven"}
FAILURES = {"released", "lease_expired", "dead_lettered", "discarded"}
COUNTED = {
    "sent": "sent", "received": "received", "acked": "acked", "released": "released", "lease_expired": "expired",
    "dead_lettered": "dead_lettered", "discarded": "discarded", "purged": "removed", "cancelled": "removed",
    "moved": "moved_out", "redriven": "moved_out",
}  # fmt: skip
NAMES = (*dict.fromkeys(COUNTED.values()), "arrived", "bytes")

Event = dict[str, Any]
Row = dict[str, Any]


def of_messages(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event["seq"] is not None and not event["queue"].startswith("~")]


def detail(event: Event) -> dict[str, Any]:
    return json.loads(event["detail"]) if event["detail"] else {}


def messages(events: Iterable[Event]) -> dict[int, Row]:
    rows: dict[int, Row] = {}
    for event in of_messages(events):
        row = rows.setdefault(
            event["seq"],
            {
                "tenant": event["tenant"], "queue": event["queue"], "message_id": event["message_id"],
                "size": event["size"], "sent_at": None, "first_received_at": None, "settled_at": None,
                "outcome": "open", "attempts": 0, "released": 0, "expired": 0, "last_failure": None,
                "last_queue": event["queue"], "entered_at": None,
            },
        )  # fmt: skip
        kind, at = event["kind"], event["at"]
        if kind == "sent":
            row["sent_at"] = row["entered_at"] = at
        if kind == "received":
            row["attempts"] += 1
            row["first_received_at"] = min(at, row["first_received_at"] or at)
        row["released"] += kind == "released"
        row["expired"] += kind == "lease_expired"
        if kind in FAILURES:
            row["last_failure"] = detail(event).get("reason", kind)
        if kind in PASSES:
            row["last_queue"], row["entered_at"] = detail(event)["target"], at
        if kind in ENDS or kind == "dead_lettered":
            row["outcome"], row["settled_at"] = kind, at
        elif kind in PASSES:
            row["outcome"], row["settled_at"] = "open", None
    return rows


def queue_minutes(events: Iterable[Event]) -> dict[tuple[str, str, int], Row]:
    """By tenant, id of the queue, and minute."""
    chosen = of_messages(events)
    rows: dict[tuple[str, str, int], Row] = defaultdict(lambda: dict.fromkeys(NAMES, 0))
    for event in chosen:
        minute = event["at"] // MINUTE * MINUTE
        row = rows[event["tenant"], event["queue_id"], minute]
        row["queue"] = event["queue"]
        if event["kind"] in COUNTED:
            row[COUNTED[event["kind"]]] += 1
        row["bytes"] += event["size"] if event["kind"] == "sent" else 0
        if event["kind"] in PASSES:
            there = rows[event["tenant"], detail(event)["target_id"], minute]
            there["arrived"] += 1
            there["queue"] = detail(event)["target"]
    stays = list(_stays(chosen))
    for (tenant, queue, minute), row in rows.items():
        end = minute + MINUTE
        here = [stay for stay in stays if (stay["tenant"], stay["queue_id"]) == (tenant, queue)]
        waiting = [stay["entered"] for stay in here if stay["entered"] < end <= stay["left"]]
        row["backlog"] = len(waiting)
        row["oldest_age_ms"] = end - min(waiting) if waiting else None
        taken = sorted(s["left"] - s["sent"] for s in here if s["ended"] == "acked" and minute <= s["left"] < end)
        row["latencies"] = taken
    return dict(rows)


def _stays(events: list[Event]) -> Iterable[Row]:
    present: dict[int, Row] = {}
    sent: dict[int, int] = {}
    for event in events:
        kind, seq = event["kind"], event["seq"]
        if kind == "sent":
            sent[seq] = event["at"]
        if kind in ENDS or kind in PASSES:
            yield present.pop(seq) | {"left": event["at"], "ended": kind, "sent": sent[seq]}
        if kind == "sent" or kind in PASSES:
            queue = event["queue_id"] if kind == "sent" else detail(event)["target_id"]
            present[seq] = {"tenant": event["tenant"], "queue_id": queue, "entered": event["at"]}
    for seq, stay in present.items():
        yield stay | {"left": float("inf"), "ended": None, "sent": sent[seq]}


def percentile(values: list[int], share: float) -> float | None:
    """Between the two nearest, in proportion."""
    if not values:
        return None
    place = (len(values) - 1) * share
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def ranked(values: list[int], share: float) -> int | None:
    """The smallest value that at least such a share of them does not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def near(values: list[int], found: int | None, share: float, *, by: float) -> bool:
    """Whether it is one of the values, and its rank among them so near to the share."""
    ordered = sorted(values)
    if found is None or found not in values:
        return False
    first, last = bisect.bisect_left(ordered, found) / len(values), bisect.bisect_right(ordered, found) / len(values)
    return first - by <= share <= last + by


def deaths(events: Iterable[Event]) -> list[tuple[int, int, str, str, str]]:
    """Each death of a message: which, when, why, where to and where from."""
    dead = [event for event in of_messages(events) if event["kind"] == "dead_lettered"]
    return sorted(
        (e["seq"], e["at"], detail(e).get("reason", "unknown"), detail(e)["target"], e["queue"]) for e in dead
    )


REQUESTS = {"sent", "received", "acked", "released", "extended"}


def usage(events: Iterable[Event]) -> dict[tuple[str, str], tuple[int, ...]]:
    """Requests, messages, receipts, bytes and billable units of each tenant and day."""
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    for event in of_messages(events):
        kind = event["kind"]
        if kind in REQUESTS:
            day = f"{datetime.fromtimestamp(event['at'] / 1_000, tz=UTC):%Y-%m-%d}"
            row = found[event["tenant"], day]
            for place, counts in enumerate((True, kind == "sent", kind == "received")):
                row[place] += counts
            row[3] += event["size"] if kind in {"sent", "received"} else 0
            row[4] += billable_units(event["size"]) if kind == "received" else 0
    return {key: tuple(row) for key, row in found.items()}


def deliveries(events: Iterable[Event]) -> dict[tuple[str, str, int], tuple[int, int, int]]:
    """Attempts, those to be tried again, and those of which nothing is known, of each listener and minute."""
    found: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for event in events:
        if (
            event["seq"] is None
            or event["queue"][0] != "~"
            or event["kind"] not in {"acked", "released", "lease_expired"}
        ):
            continue
        verdict = detail(event).get("verdict", "unknown")
        row = found[event["tenant"], event["queue"][1:].partition("/")[0], event["at"] // MINUTE * MINUTE]
        for place, counts in enumerate((True, verdict == "retry", verdict == "unknown")):
            row[place] += counts
    return {key: (row[0], row[1], row[2]) for key, row in found.items()}
