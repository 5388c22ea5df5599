"""The tables equal a plain computation from the journal, however history is cut into batches, and when a batch is
done again."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from courier.journal.schema import NAMES, spark_schema
from courier.spark import pipeline
from courier.spark.lake import Lake
from courier.spark.tables import messages, queue_minutes
from tests.support import minutes as plain

pytestmark = pytest.mark.slow

START = 1_767_225_540_000  # one minute before a midnight in UTC
QUEUES = ("orders", "mail", "graves", "~listener")


class History:
    """A journal in the making: random, but one that a broker could have written."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.now = START
        self.events: list[dict[str, Any]] = []
        self.live: dict[int, str] = {}
        self.leased: set[int] = set()
        self.tenants: dict[int, str] = {}

    def step(self) -> None:
        self.now += self.draw(st.sampled_from((0, 1, 999, 20_000, 61_000, 200_000)))
        waiting = sorted(set(self.live) - self.leased)
        moves = [self.send] + [self.receive, self.leave] * bool(waiting) + [self.settle] * 2 * bool(self.leased)
        self.draw(st.sampled_from(moves))()

    def send(self) -> None:
        """Two tenants share a journal, and a run of Spark tests both."""
        seq = (len(self.events) + 1) * self.draw(st.sampled_from((1, 40_000)))
        if seq not in {event["seq"] for event in self.events}:
            self.live[seq] = self.draw(st.sampled_from(QUEUES))
            self.tenants[seq] = self.draw(st.sampled_from(("acme", "zoo")))
            self.note("sent", seq, size=self.draw(st.integers(0, 9)), detail={"content_type": "text/plain"})

    def receive(self) -> None:
        seq = self.pick(set(self.live) - self.leased)
        self.leased.add(seq)
        self.note("received", seq)

    def settle(self) -> None:
        seq = self.pick(self.leased)
        self.leased.discard(seq)
        kind = self.draw(st.sampled_from(("acked", "released", "lease_expired", "dead_lettered", "discarded")))
        late = self.draw(st.sampled_from((0, 0, 90_000))) if kind != "acked" else 0
        at = max(self.now - late, *(event["at"] for event in self.events if event["seq"] == seq))
        self.end(seq, kind, at=at)

    def leave(self) -> None:
        self.end(self.pick(set(self.live) - self.leased), self.draw(st.sampled_from(("purged", "moved", "redriven"))))

    def end(self, seq: int, kind: str, at: int | None = None) -> None:
        here = self.live[seq]
        if kind in plain.PASSES:
            target = "~graves" if here.startswith("~") else self.draw(st.sampled_from(QUEUES[:3]))
            self.note(kind, seq, at=at, detail={"reason": "attempts", "target": target})
            self.live[seq] = target
        else:
            self.note(kind, seq, at=at, detail={"reason": "old"} if kind == "discarded" else None)
            if kind in plain.ENDS:
                del self.live[seq]

    def pick(self, seqs: set[int]) -> int:
        return int(self.draw(st.sampled_from(sorted(seqs))))

    def note(self, kind: str, seq: int, *, at: int | None = None, size: int = 3, detail: Any = None) -> None:
        values = {
            "offset": len(self.events), "kind": kind, "at": self.now if at is None else at, "tenant": self.tenants[seq],
            "queue_id": f"id-{self.live[seq]}", "queue": self.live[seq], "seq": seq, "message_id": f"m{seq}",
            "size": size, "detail": json.dumps(detail) if detail else None,
        }  # fmt: skip
        self.events.append(dict.fromkeys(NAMES) | values)


@st.composite
def histories(draw: Any) -> tuple[list[dict[str, Any]], list[int], int]:
    """Events, where batches end, and after which of them the batch is done a second time."""
    history = History(draw)
    for _ in range(draw(st.integers(20, 60))):
        history.step()
    count = len(history.events)
    cuts = sorted({*draw(st.lists(st.integers(1, count), max_size=1)), count})
    return history.events, cuts, draw(st.integers(0, len(cuts) - 1))


def frame(spark: SparkSession, events: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame([tuple(event[name] for name in NAMES) for event in events], spark_schema())


def ms(column: str) -> Any:
    return f.unix_millis(column).alias(column)


def message_rows(lake: Lake) -> dict[int, dict[str, Any]]:
    names = ("tenant", "queue", "message_id", "size", "outcome", "attempts", "released", "expired", "last_failure")
    read = lake.read(pipeline.MESSAGES, messages.SCHEMA, "bucket")
    rows = read.select("seq", *names, ms("sent_at"), ms("first_received_at"), ms("settled_at")).collect()
    assert len({row.seq for row in rows}) == len(rows)
    return {row.seq: {name: value for name, value in row.asDict().items() if name != "seq"} for row in rows}


def minute_rows(lake: Lake) -> dict[tuple[str, str, int], dict[str, Any]]:
    read = lake.read(pipeline.QUEUE_MINUTES, queue_minutes.SCHEMA, "day").drop("day", "as_of")
    sketched = f.when(f.col("latency_sketch").isNotNull(), f.kll_sketch_get_n_bigint("latency_sketch")).alias(
        "latency_count"
    )
    rows = read.select("*", ms("minute").alias("ms"), sketched).drop("minute", "latency_sketch").collect()
    shown = [row.asDict() for row in rows]
    found = {(row.pop("tenant"), row.pop("queue"), row.pop("ms")): row for row in shown}
    assert len(found) == len(rows)
    return found


def expected_minutes(events: list[dict[str, Any]]) -> dict[tuple[str, str, int], dict[str, Any]]:
    rows = plain.queue_minutes(events)
    for row in rows.values():
        taken = row.pop("latencies")
        row["latency_count"] = len(taken) or None
        for name, share in queue_minutes.QUANTILES.items():
            row[name] = pytest.approx(plain.percentile(taken, share)) if taken else None
    return rows


@settings(max_examples=3)
@given(history=histories())
def test_the_tables_equal_a_plain_computation_from_the_journal(spark: SparkSession, history: Any) -> None:
    events, cuts, twice = history
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(spark, Path(folder))
        for batch, (start, end) in enumerate(zip([0, *cuts], cuts, strict=False)):
            for _ in range(1 + (batch == twice)):
                pipeline.refresh(lake, frame(spark, events[start:end]), batch)
        assert message_rows(lake) == plain.messages(events)
        assert minute_rows(lake) == expected_minutes(events)
        stored = spark.read.parquet(str(lake.root / "events")).orderBy("offset").select("offset", ms("at"), "kind")
        assert [tuple(row) for row in stored.collect()] == [(e["offset"], e["at"], e["kind"]) for e in events]
