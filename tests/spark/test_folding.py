"""Messages folded without Spark equal a plain computation, in hundreds of random histories cut anywhere."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.journal.schema import journal_schema
from couriermq.spark.shares import REWRITE, share_out
from couriermq.spark.tables import dead_letters, folding, messages
from couriermq.spark.tables import events as event_table
from couriermq.spark.tables.columns import arrow_schema
from couriermq.spark.tables.events import is_hidden
from couriermq.spark.tables.folding import fold
from tests.spark.test_tables import QUEUES, START, History, histories, life, numbered
from tests.support import minutes as plain

SCHEMA = arrow_schema(messages.SCHEMA, without=["bucket"])
INSTANTS = ("sent_at", "first_received_at", "settled_at", "entered_at")


def table_of(events: list[dict[str, Any]]) -> pa.Table:
    batch = pa.RecordBatch.from_pylist(events, schema=journal_schema())
    table = event_table.of_journal([batch], arrow_schema(event_table.SCHEMA, without=["batch"]))
    return table.filter(pc.and_not(pc.is_valid(table["seq"]), is_hidden(table))).select(list(folding.COLUMNS))


class Buckets:
    """All buckets, as batch after batch is folded into them."""

    def __init__(self) -> None:
        self.rows: dict[int, pa.Table] = {}
        self.batch = 0

    def take(self, events: list[dict[str, Any]]) -> None:
        table = table_of(events)
        places = pc.divide(table["seq"], messages.BUCKET)
        for bucket in places.unique().to_pylist():
            known = self.rows.get(bucket, SCHEMA.empty_table())
            mine = table.filter(pc.equal(places, bucket))
            self.rows[bucket] = fold(known, mine, bucket=bucket, batch=self.batch)
        self.batch += 1

    def found(self, *names: str) -> dict[int, dict[str, Any]]:
        rows = [row for table in self.rows.values() for row in table.to_pylist()]
        for row in rows:
            row |= {name: row[name] and round(row[name].timestamp() * 1_000) for name in INSTANTS}
        return {row["seq"]: {name: row[name] for name in names} for row in rows}


@pytest.mark.slow
@given(history=histories())
def test_messages_are_what_a_plain_computation_says(history: Any) -> None:
    events, cuts, _ = history
    buckets = Buckets()
    for start, end in zip([0, *cuts], cuts, strict=False):
        buckets.take(events[start:end])
    expected = plain.messages(events)
    assert buckets.found(*next(iter(expected.values()), {})) == expected
    for rows in buckets.rows.values():
        assert rows["seq"].to_pylist() == sorted(rows["seq"].to_pylist())


@st.composite
def sharded_histories(draw: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[int]]:
    """Events as they happened; the same as a reader gets them of shards that are read each at its own pace; cuts."""
    history = History(draw, counted=True)
    for _ in range(draw(st.integers(20, 60))):
        history.step()
    shards = [[e for e in history.events if (e["queue"] in QUEUES[:2]) is first] for first in (True, False)]
    read: list[dict[str, Any]] = []
    while any(shards):
        shard = draw(st.sampled_from([shard for shard in shards if shard]))
        count = draw(st.integers(1, len(shard)))
        read += shard[:count]
        del shard[:count]
    cuts = sorted({*draw(st.lists(st.integers(1, len(read)), max_size=4)), len(read)})
    return history.events, read, cuts


@pytest.mark.slow
@given(history=sharded_histories())
def test_messages_are_the_same_in_whichever_order_shards_are_read(history: Any) -> None:
    events, read, cuts = history
    buckets = Buckets()
    for start, end in zip([0, *cuts], cuts, strict=False):
        buckets.take(read[start:end])
    expected = plain.messages(events)
    assert buckets.found(*next(iter(expected.values()), {})) == expected
    steps = {seq: row["history"] or [] for seq, row in buckets.found("history").items()}
    assert all([step["turn"] for step in own] == sorted(step["turn"] for step in own) for own in steps.values())


def test_the_beginning_of_a_message_may_be_read_last() -> None:
    """It died at home, and was acked in its dead letter queue, whose shard is read first."""
    events = numbered(counted("sent", "received", "dead_lettered", "received", "acked"))
    for event in events[3:]:
        event |= {"queue": "graves", "queue_id": "id-graves"}
    buckets = Buckets()
    names = ("queue", "last_queue", "outcome", "sent_at", "entered_at", "attempts", "time_to_ack_ms", "turn")
    buckets.take(events[3:])
    taken = 4 * 60_000
    assert buckets.found(*names)[1] == dict(
        zip(names, ("graves", "graves", "acked", START, None, 1, taken, 5), strict=True)
    )
    (stay,) = messages.stays_ended(buckets.rows[0], 0).to_pylist()
    assert (stay["queue_id"], stay["entered_at"], stay["taken_ms"]) == ("id-graves", None, taken)
    buckets.take(events[:3])
    died_at = START + 2 * 60_000
    assert buckets.found(*names)[1] == dict(
        zip(names, ("orders", "graves", "acked", START, died_at, 2, taken, 5), strict=True)
    )
    stays = messages.stays_ended(buckets.rows[0], 1).to_pylist()
    told = [(one["queue_id"], one["entered_at"].timestamp() * 1_000, one["taken_ms"]) for one in stays]
    assert told == [("id-graves", died_at, None), ("id-orders", START, None)]


def test_a_death_has_the_failures_that_were_read_after_it() -> None:
    events = numbered(counted("sent", "received", "released", "received", "dead_lettered"))
    buckets = Buckets()
    buckets.take(events[3:])
    first = dead_letters.deaths(buckets.rows[0], 0)
    buckets.take(events[:3])
    second = dead_letters.deaths(buckets.rows[0], 1)
    kinds = [[step["kind"] for step in one["history"]] for one in (first.to_pylist() + second.to_pylist())]
    assert kinds == [["dead_lettered"], ["released", "dead_lettered"]]
    known = dead_letters.add(dead_letters.NONE, first, batch=0)
    assert len(dead_letters.add(known, second, batch=1)) == 1


def counted(*kinds: str, seq: int = 1) -> list[dict[str, Any]]:
    """The events of a message with their turns."""
    return [event | {"turn": turn, "sent_at": START} for turn, event in enumerate(life(*kinds, seq=seq), 1)]


def test_a_history_keeps_the_newest_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "LONGEST_HISTORY", 3)
    buckets = Buckets()
    events = numbered(
        life("sent", "released", "lease_expired", "released", "released", "released"), life("sent", seq=2)
    )
    buckets.take(events[:3])
    buckets.take(events[3:])
    steps = {seq: row["history"] for seq, row in buckets.found("history").items()}
    assert [step["offset"] for step in steps[1]] == [3, 4, 5]
    assert {step["batch"] for step in steps[1]} == {1}
    assert steps[2] is None


def test_a_message_that_nobody_speaks_of_stays_as_it_is() -> None:
    buckets = Buckets()
    events = numbered(life("sent", "received", "acked"), life("sent", seq=2, start=START))
    buckets.take(events)
    before = buckets.found("settled_at", "offset", "changed_batch", "time_to_ack_ms")[1]
    buckets.take([event | {"offset": 9} for event in life("received", seq=2)])
    assert buckets.found("settled_at", "offset", "changed_batch", "time_to_ack_ms")[1] == before
    assert before == {"settled_at": START + 120_000, "offset": 2, "changed_batch": 0, "time_to_ack_ms": 120_000}
    assert buckets.found("batch", "changed_batch")[2] == {"batch": 1, "changed_batch": 1}


def test_buckets_are_shared_out_evenly() -> None:
    lots = share_out({1: 5 * REWRITE, 2: REWRITE, 3: REWRITE, 4: 0}, 2)
    assert lots == [[1], [2, 3, 4]]
    assert share_out({7: 1}, 8) == [[7]]
