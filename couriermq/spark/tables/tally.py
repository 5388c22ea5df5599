"""What happened, counted: by queue, minute, kind and bucket of messages. All tables but `messages` grow from it.

A file of events is counted where it is read. What the counts keep apart is only what some table must tell apart.
"""

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from couriermq.core.billing import UNIT_BYTES
from couriermq.spark.tables.columns import INSTANT, NUMBER, TEXT, group, kind_in, minutes_of, struct
from couriermq.spark.tables.events import HIDDEN, PASSES, is_hidden
from couriermq.spark.tables.listener_minutes import ENDS as ATTEMPT_ENDS
from couriermq.spark.tables.messages import bucket_of
from couriermq.spark.tables.tenant_usage import PUBLISHED, REQUESTS

KEY = ("tenant", "queue_id", "queue", "minute", "kind", "bucket", "target_id", "target", "verdict", "latency_ms")
SUMS = ("count", "bytes", "units", "copies")
SCHEMA = struct(
    tenant=TEXT,
    queue_id=TEXT,
    queue=TEXT,
    minute=INSTANT,
    kind=TEXT,
    bucket=NUMBER,
    target_id=TEXT,
    target=TEXT,
    verdict=TEXT,
    latency_ms=NUMBER,
    **dict.fromkeys(SUMS, NUMBER),
    last_at=INSTANT,
)
COLUMNS = ("kind", "at", "tenant", "queue_id", "queue", "seq", "size", "detail")
"""Of the events, what is looked at."""


def count(events: pa.Table) -> pa.Table:
    """Events of messages that people see, of deliveries that ended, and requests that are about no message."""
    events = _chosen(events)
    told = _told(events)
    keys = {
        "tenant": events["tenant"],
        "queue_id": events["queue_id"],
        "queue": events["queue"],
        "minute": minutes_of(events["at"]),
        "kind": events["kind"],
        "bucket": bucket_of(events["seq"]),
    }
    size = pc.fill_null(events["size"], 0)
    sums = {"count": pa.repeat(pa.scalar(1, pa.int64()), len(events)), "bytes": size, "units": _units(size)}
    rows = pa.table({**keys, **told, **sums, "last_at": events["at"]}).filter(pc.invert(told["untried"]))
    return group(rows, KEY, {**dict.fromkeys(SUMS, "sum"), "last_at": "max"})


def _chosen(events: pa.Table) -> pa.Table:
    hidden = is_hidden(events)
    of_message = pc.is_valid(events["seq"])
    asked = kind_in(events, *REQUESTS)
    attempt = kind_in(events, *ATTEMPT_ENDS)
    shown = pc.and_not(pc.or_(of_message, asked), hidden)
    return events.filter(pc.or_(shown, pc.and_(pc.and_(hidden, of_message), attempt)))


def _told(events: pa.Table) -> dict[str, pa.Array]:
    """What only the details of few events tell."""
    hidden = is_hidden(events)
    looked = pc.or_(hidden, kind_in(events, *PASSES, PUBLISHED)).combine_chunks()
    rows = events.select(["queue", "kind", "detail"]).filter(looked).to_pylist()
    details = [json.loads(row["detail"]) if row["detail"] else {} for row in rows]
    delivered = [(row["queue"] or "").startswith(HIDDEN) for row in rows]
    found = {
        "target_id": pa.array((one.get("target_id") for one in details), pa.string()),
        "target": pa.array((one.get("target") for one in details), pa.string()),
        "verdict": pa.array(
            (one.get("verdict", "unknown") if mine else None for one, mine in zip(details, delivered, strict=True)),
            pa.string(),
        ),
        "latency_ms": pa.array((one.get("latency_ms") for one in details), pa.int64()),
        "copies": pa.array((one.get("queue_count") or 0 for one in details), pa.int64()),
        "untried": pa.array(("untried" in one and "verdict" not in one for one in details), pa.bool_()),
    }
    blank = {"copies": 0, "untried": False}
    return {
        name: pc.replace_with_mask(
            pa.repeat(pa.scalar(blank.get(name), values.type), len(events)),
            looked,
            values,
        )
        for name, values in found.items()
    }


def _units(size: Any) -> Any:
    """Billable units: so much received at a time, and at least one."""
    return pc.max_element_wise(pc.divide(pc.add(size, UNIT_BYTES - 1), UNIT_BYTES), 1)
