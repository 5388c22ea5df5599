"""A lake without Spark: the tables of a journal's beginning, computed in plain Python and written with pyarrow."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from couriermq.core.events import Entry
from couriermq.core.lanes import lane_name
from couriermq.journal.arrow import record_batch
from tests.support.minutes import messages, percentile, queue_minutes
from tests.support.server import ServerProcess

INSTANT = pa.timestamp("us", "UTC")
INSTANTS = {"at", "sent_at", "first_received_at", "settled_at", "minute", "died_at"}


Ends = Mapping[int, int]
"""The offset that each lane has been taken in up to."""


def write_lake(root: Path, entries: Sequence[Entry], *, batch: int = 0, ends: Ends | None = None) -> None:
    """All tables as they are after a batch that ended with the last of the entries."""
    write_tables(root, pa.Table.from_batches([record_batch(entries)]).to_pylist(), batch=batch, ends=ends)


def write_tables(root: Path, events: list[dict[str, Any]], *, batch: int = 0, ends: Ends | None = None) -> None:
    """The same of events as Arrow has them."""
    put(root, "events", events, folder=f"batch={batch:08d}")
    lives = [{"seq": seq, **row} for seq, row in messages(events).items()]
    for row in lives:
        taken = row["outcome"] == "acked"
        row["time_to_ack_ms"] = row["settled_at"] - row["sent_at"] if taken else None
    put(root, "messages", lives, folder="bucket=0")
    for day, rows in minutes_by_day(events).items():
        put(root, "queue_minutes", rows, folder=f"day={day}")
    commit(root, batch, ends or {0: events[-1]["offset"] + 1})


def read_journal(server: ServerProcess) -> list[dict[str, Any]]:
    """All events that a server has, as Arrow has them."""
    answer = server.session.get(
        f"{server.url}/courier/v1/journal/events", params={"format": "arrow", "limit": "1000000"}, timeout=60
    )
    with pa.ipc.open_stream(answer.content) as stream:
        rows: list[dict[str, Any]] = stream.read_all().to_pylist()
    return rows


def minutes_by_day(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    days: dict[str, list[dict[str, Any]]] = {}
    for (tenant, queue_id, minute), row in queue_minutes(events).items():
        taken = row.pop("latencies")
        shares = {f"latency_p{n}_ms": percentile(taken, n / 100) for n in (50, 95, 99)}
        day = f"{datetime.fromtimestamp(minute / 1_000, tz=UTC):%Y-%m-%d}"
        days.setdefault(day, []).append({"tenant": tenant, "queue_id": queue_id, "minute": minute, **row, **shares})
    return days


def put(root: Path, table: str, rows: list[dict[str, Any]], *, folder: str = "") -> Path:
    """One file of a table; columns that are instants are given as epoch milliseconds."""
    written = pa.Table.from_pylist(rows)
    for index, name in enumerate(written.column_names):
        if name in INSTANTS:
            column = written.column(name).cast(pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(INSTANT)
            written = written.set_column(index, name, column)
        elif name.startswith("latency_p"):
            written = written.set_column(index, name, written.column(name).cast(pa.float64()))
        elif name == "oldest_age_ms":
            written = written.set_column(index, name, written.column(name).cast(pa.int64()))
    path = root / table / folder / f"{table}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(written, path)
    return path


def commit(root: Path, batch: int, ends: Ends) -> None:
    """What Spark notes when a batch is done."""
    notes = {
        "commits": "v1\n{}",
        "offsets": "v1\n{}\n" + json.dumps({lane_name(lane): end for lane, end in ends.items()}),
    }
    for folder, text in notes.items():
        path = root / "_checkpoint" / folder / str(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
