"""The tables equal a plain computation from the journal, however history is cut into batches, and when a batch is
done again; on every table store."""

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from couriermq.core.billing import UNIT_BYTES
from couriermq.journal.schema import NAMES, journal_schema
from couriermq.lake import tables
from couriermq.lake.tables import EVENTS
from couriermq.spark import refreshing
from couriermq.spark.lake import Lake, Terms
from couriermq.spark.refreshing import TABLES, refresh, schema_of
from couriermq.spark.stores.base import DELTA, FORMATS, PARQUET
from couriermq.spark.tables import latency
from couriermq.spark.taking import count_again, write_events
from tests.support import minutes as plain

pytestmark = pytest.mark.slow

START = 1_767_225_540_000  # one minute before a midnight in UTC
QUEUES = ("orders", "mail", "graves", "~listener")
NEAR = 0.02
"""How far the rank of a percentile may be off where a sketch has more durations than it keeps."""


class History:
    """A journal in the making: random, but one that a broker could have written."""

    def __init__(self, draw: Any, *, counted: bool = False) -> None:
        """`counted`: whether events have turns."""
        self.draw = draw
        self.counted = counted
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
        self.note("received", seq, size=self.draw(st.sampled_from((3, UNIT_BYTES, UNIT_BYTES + 1))))

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
            self.note(kind, seq, at=at, detail=passage(target))
            self.live[seq] = target
        else:
            verdict = {"verdict": "retry", "latency_ms": self.draw(st.integers(0, 99))} if here[0] == "~" else None
            self.note(kind, seq, at=at, detail={"reason": "old"} if kind == "discarded" else verdict)
            if kind in plain.ENDS:
                del self.live[seq]

    def pick(self, seqs: set[int]) -> int:
        return int(self.draw(st.sampled_from(sorted(seqs))))

    def note(self, kind: str, seq: int, *, at: int | None = None, size: int = 3, detail: Any = None) -> None:
        values = {
            "offset": len(self.events), "kind": kind, "at": self.now if at is None else at, "tenant": self.tenants[seq],
            "queue_id": f"id-{self.live[seq]}", "queue": self.live[seq], "seq": seq, "message_id": f"m{seq}",
            "attempt": 1, "size": size, "detail": json.dumps(detail) if detail else None,
        }  # fmt: skip
        if self.counted:
            before = [event for event in self.events if event["seq"] == seq]
            values |= {"turn": len(before) + 1, "sent_at": before[0]["at"] if before else values["at"]}
        self.events.append(dict.fromkeys(NAMES) | values)


def passage(target: str) -> dict[str, str]:
    return {"reason": "attempts", "target_id": f"id-{target}", "target": target}


@st.composite
def histories(draw: Any) -> tuple[list[dict[str, Any]], list[int], int]:
    """Events, where batches end, and after which of them the batch is done a second time."""
    history = History(draw, counted=draw(st.booleans()))
    for _ in range(draw(st.integers(20, 60))):
        history.step()
    count = len(history.events)
    cuts = sorted({*draw(st.lists(st.integers(1, count), max_size=1)), count})
    return history.events, cuts, draw(st.integers(0, len(cuts) - 1))


def take(lake: Lake, events: list[dict[str, Any]], batch: int) -> None:
    """A batch into the tables, as the pipeline does it, but for the journal."""
    if not lake.store.has(EVENTS, batch):
        draft = lake.store.draft(EVENTS)
        rows = pa.RecordBatch.from_pylist(events, schema=journal_schema())
        for start in range(0, len(events), 30):  # files of several tasks
            write_events(draft, events[start]["offset"], iter([rows.slice(start, 30)]))
        lake.store.add(EVENTS, draft, schema_of(EVENTS), batch)
    refresh(lake, count_again(lake, batch), batch)


def ms(column: str) -> Any:
    return f.unix_millis(column).alias(column)


def read(lake: Lake, table: str) -> DataFrame:
    """As Spark reads it."""
    files, schema = tables.Lake(lake.root).files(table), schema_of(table)
    if not files:
        return lake.spark.createDataFrame([], schema)
    reader = lake.spark.read.schema(schema).option("basePath", str(lake.root / table))
    return reader.parquet(*map(str, files)).select(*schema.names)


def everything(lake: Lake) -> dict[str, list[str]]:
    """Every row of every table, but for the batch that wrote it."""
    found = {}
    for table in TABLES:
        rows = read(lake, table)
        own = [
            name
            for name in rows.columns
            if name not in {"batch", "changed_batch", "settled_batch", "history", "latency_sketch"}
        ]
        deep = [f.to_json(f.transform("history", lambda s: s.dropFields("batch"))) if table == refreshing.MESSAGES
                else f.to_json("history")] if "history" in rows.columns else []  # fmt: skip
        found[table] = sorted(map(repr, rows.select(*own, *deep).collect()))
    return found


def message_rows(lake: Lake) -> dict[int, dict[str, Any]]:
    names = ("tenant", "queue", "message_id", "size", "outcome", "attempts", "released", "expired", "last_failure")
    instants = ("sent_at", "first_received_at", "settled_at", "entered_at")
    rows = read(lake, "messages").select("seq", *names, "last_queue", *map(ms, instants)).collect()
    assert len({row.seq for row in rows}) == len(rows)
    return {row.seq: {name: value for name, value in row.asDict().items() if name != "seq"} for row in rows}


def minute_rows(lake: Lake) -> dict[tuple[str, str, int], dict[str, Any]]:
    hidden = ("day", "hour", "batch", "left_oldest_at", "minute", "latency_sketch")
    count = f.when(f.col("latency_sketch").isNotNull(), f.kll_sketch_get_n_double("latency_sketch"))
    rows = read(lake, "queue_minutes").select("*", ms("minute").alias("ms"), f.nullif(count, f.lit(0)).alias("n"))
    shown = [row.asDict() for row in rows.drop(*hidden).collect()]
    found = {(row.pop("tenant"), row.pop("queue_id"), row.pop("ms")): row for row in shown}
    assert len(found) == len(shown)
    return found


def expected_minutes(
    events: list[dict[str, Any]], found: dict[tuple[str, str, int], dict[str, Any]]
) -> dict[tuple[str, str, int], dict[str, Any]]:
    """What the events say; of a minute with more durations than a sketch keeps, what was found if it is near enough."""
    rows = plain.queue_minutes(events)
    for key, row in rows.items():
        taken = row.pop("latencies")
        row["n"] = len(taken) or None
        for name, share in latency.QUANTILES.items():
            row[name] = plain.ranked(taken, share)
            if len(taken) > latency.EXACT and plain.near(taken, found[key][name], share, by=NEAR):
                row[name] = found[key][name]
    return rows


def check(lake: Lake, events: list[dict[str, Any]]) -> None:
    """Every table says what the events say."""
    assert message_rows(lake) == plain.messages(events)
    minutes = minute_rows(lake)
    assert minutes == expected_minutes(events, minutes)
    stored = read(lake, "events").orderBy("offset").select("offset", ms("at"), "kind")
    assert [tuple(row) for row in stored.collect()] == [(e["offset"], e["at"], e["kind"]) for e in events]
    deaths = read(lake, "dead_letters").select("seq", ms("died_at"), "reason", "dead_letter_queue", "queue", "history")
    found = sorted((d.seq, d.died_at, d.reason, d.dead_letter_queue, d.queue) for d in deaths.collect())
    assert found == plain.deaths(events)
    assert all(death.history[-1].kind == "dead_lettered" for death in deaths.collect())
    counted = ("requests", "messages", "received", "bytes", "billable_units")
    usage = read(lake, "tenant_usage").select("tenant", "day", *counted).collect()
    assert {(u.tenant, u.day): tuple(u)[2:] for u in usage} == plain.usage(events)
    deliveries = read(lake, "listener_minutes").select(
        "tenant", "listener", ms("minute"), "attempts", "retry", "unknown"
    )
    assert {tuple(d)[:3]: tuple(d)[3:] for d in deliveries.collect()} == plain.deliveries(events)


@settings(max_examples=3)
@given(history=histories())
def test_the_tables_equal_a_plain_computation_from_the_journal(spark: SparkSession, history: Any) -> None:
    fill_and_check(spark, history, PARQUET)


@settings(max_examples=1)
@given(history=histories())
def test_the_tables_are_the_same_as_delta(spark: SparkSession, history: Any) -> None:
    fill_and_check(spark, history, DELTA)


def fill_and_check(spark: SparkSession, history: Any, kind: str) -> None:
    events, cuts, twice = history
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(spark, Path(folder), Terms(kind))
        for batch, (start, end) in enumerate(zip([0, *cuts], cuts, strict=False)):
            for _ in range(1 + (batch == twice)):
                take(lake, events[start:end], batch)
        check(lake, events)


def life(*kinds: str, seq: int = 1, queue: str = "orders", start: int = START) -> list[dict[str, Any]]:
    """What happens to a message, a minute after the other."""
    history = History(None)
    history.live[seq], history.tenants[seq], history.now = queue, "acme", start
    for kind in kinds:
        history.note(kind, seq, detail=passage("graves") if kind in plain.PASSES else None)
        history.now += 60_000
    return history.events


def numbered(*lives: list[dict[str, Any]]) -> list[dict[str, Any]]:
    events = [event for one in lives for event in one]
    return [event | {"offset": offset} for offset, event in enumerate(events)]


@pytest.mark.parametrize(("count", "exact"), [(latency.EXACT, True), (5 * latency.EXACT, False)])
def test_percentiles_are_exact_up_to_a_number_of_durations_and_near_beyond(
    spark: SparkSession, count: int, exact: bool
) -> None:
    """Also of a minute that comes in several batches, so that sketches are put together."""
    durations = [number**2 for number in random.Random(count).sample(range(count), count)]
    batches = latency.sketched(pa.array([durations[start::5] for start in range(5)]))
    merged = latency.merged(pa.array([batches.to_pylist()], pa.list_(pa.binary())))
    row = {name: column[0].as_py() for name, column in latency.quantiles(merged).items()}
    share = "kll_sketch_get_quantile_double(sketch, 0.95)"
    first = spark.createDataFrame([(merged[0].as_py(),)], "sketch BINARY").selectExpr(share).first()
    assert first is not None
    (sparks,) = first
    assert sparks == row["latency_p95_ms"]  # the bytes are the same wherever there is KLL
    right = [plain.ranked(durations, share) for share in latency.QUANTILES.values()]
    assert ([row[name] for name in latency.QUANTILES] == right) is exact
    assert all(plain.near(durations, row[name], share, by=NEAR) for name, share in latency.QUANTILES.items())


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_that_was_cut_off_in_the_middle_of_a_batch_is_finished_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A crash before each table in turn: what was written stays, what is missing follows, nothing comes twice."""
    first = numbered(life("sent", "received", "released"), life("sent", seq=200_000, start=START + 7_200_000))
    second = [e | {"offset": len(first) + n} for n, e in enumerate(life("received", "dead_lettered", start=START + 9))]
    lake = Lake(spark, tmp_path, Terms(kind))
    take(lake, first, 0)
    for table in (*refreshing.TABLES[1:], "waiting"):
        with monkeypatch.context() as crash:
            crash.setattr(refreshing, f"refresh_{table}", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                take(lake, second, 1)
    take(lake, second, 1)
    check(lake, first + second)


def drop_newer(table: str, draft: Path, schema: StructType) -> StructType:
    """The files of a draft as an older Courier would have written them, and their columns."""
    newer = {"messages": "last_failure", "queue_minutes": "received"}.get(table)
    for file in draft.rglob("*.parquet") if newer else ():
        pq.write_table(pq.ParquetFile(file).read().drop_columns([newer]), file)
    return StructType([field for field in schema if field.name != newer])


@pytest.mark.parametrize("kind", FORMATS)
def test_a_column_that_is_new_is_null_in_old_rows_and_there_in_new_ones(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """An older Courier writes without the columns; the next one adds to what it has written."""
    lake = Lake(spark, tmp_path, Terms(kind))
    first, second = life("sent", "received"), life("sent", "received", seq=500_000, start=START + 90_000_000)
    events = numbered(first, second, life("acked", start=START + 180_000))
    put = lake.store.put
    with monkeypatch.context() as older:
        older.setattr(
            lake.store,
            "put",
            lambda table, draft, schema, *more: put(table, draft, drop_newer(table, draft, schema), *more),
        )
        take(lake, events[:2], 0)
    take(lake, events[2:4], 1)
    rows = read(lake, "messages").select("seq", "last_failure", "outcome").orderBy("seq").collect()
    assert [tuple(row) for row in rows] == [(1, None, "open"), (500_000, None, "open")]
    received = read(lake, "queue_minutes").groupBy("day").agg(f.sum("received").alias("n")).orderBy("day")
    assert [row.n for row in received.collect()] == [None, None, 1]
    take(lake, events[4:], 2)
    (row,) = read(lake, "messages").where("seq = 1").select("outcome", "attempts").collect()
    assert tuple(row) == ("acked", 1)


def test_what_a_killed_task_left_behind_is_in_no_table(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path)
    draft = lake.store.draft(EVENTS)
    write_events(draft, 0, iter([pa.RecordBatch.from_pylist(life("sent"), schema=journal_schema())]))
    (draft / ".part-00000000000000000000.parquet.123").write_bytes(b"half of a file")
    lake.store.add(EVENTS, draft, schema_of(EVENTS), 0)
    assert [path.name for path in (tmp_path / EVENTS / "batch=00000000").iterdir()] == [f"part-{0:020d}.parquet"]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_task_of_a_try_that_was_given_up_writes_into_no_table(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    lake = Lake(spark, tmp_path, Terms(kind))
    rows = pa.RecordBatch.from_pylist(numbered(life("sent", "received", "acked")), schema=journal_schema())
    given_up, draft = lake.store.draft(EVENTS), lake.store.draft(EVENTS)
    write_events(draft, 0, iter([rows]))
    write_events(given_up, 1, iter([rows.slice(1)]))  # it divides the batch otherwise
    lake.store.add(EVENTS, draft, schema_of(EVENTS), 0)
    assert sorted(row.offset for row in read(lake, EVENTS).collect()) == [0, 1, 2]


def test_messages_that_were_sent_before_the_journal_begins_have_what_their_events_say(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path, Terms(PARQUET))
    events = numbered(life("received", "acked"), life("sent", "received", seq=2), life("received", seq=3))
    take(lake, events[:3], 0)
    take(lake, events[3:], 1)
    rows = read(lake, "messages").orderBy("seq").select("seq", "queue", "outcome", "attempts", ms("sent_at")).collect()
    assert [tuple(row) for row in rows] == [
        (1, "orders", "acked", 1, None), (2, "orders", "open", 1, START), (3, "orders", "open", 1, None)
    ]  # fmt: skip
