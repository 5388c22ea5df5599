"""Messages folded without Spark equal a plain computation, in hundreds of random histories cut anywhere."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from couriermq.journal.schema import journal_schema
from couriermq.spark.shares import REWRITE, share_out
from couriermq.spark.tables import events as event_table
from couriermq.spark.tables import folding, messages
from couriermq.spark.tables.columns import arrow_schema
from couriermq.spark.tables.events import is_hidden
from couriermq.spark.tables.folding import fold
from tests.spark.test_tables import START, histories, life, numbered
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
