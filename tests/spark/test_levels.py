"""`queue_minutes` without Spark: in whichever order shards are read, and whatever queues are called meanwhile."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from couriermq.journal.schema import journal_schema
from couriermq.spark.tables import events as event_table
from couriermq.spark.tables import messages, queue_minutes, tally, waiting
from couriermq.spark.tables.columns import HOURLY, arrow_schema, instants
from couriermq.spark.tables.latency import SKETCH
from tests.spark.test_folding import Buckets, counted, sharded_histories
from tests.spark.test_tables import START, expected_minutes, numbered
from tests.support import minutes as plain

HIDDEN = ("minute", "batch", "left_oldest_at", SKETCH)


class Minutes(Buckets):
    """The table, as batch after batch is added to it."""

    def __init__(self) -> None:
        super().__init__()
        self.minutes = arrow_schema(queue_minutes.SCHEMA, without=HOURLY).empty_table()

    def take(self, events: list[dict[str, Any]]) -> None:
        batch = self.batch
        super().take(events)
        rows = pa.RecordBatch.from_pylist(events, schema=journal_schema())
        table = event_table.of_journal([rows], arrow_schema(event_table.SCHEMA, without=["batch"]))
        stays = [queue_minutes.leave(messages.stays_ended(known, batch)) for known in self.rows.values()]
        now = [waiting.count(known, bucket) for bucket, known in self.rows.items()]
        if not stays:  # nothing but deliveries
            return
        known = queue_minutes.add(self.minutes, queue_minutes.count(tally.count(table)), pa.concat_tables(stays))
        self.minutes = queue_minutes.complete(known, waiting.by_queue(pa.concat_tables(now)), batch=batch)

    def found_minutes(self) -> dict[tuple[str, str, int], dict[str, Any]]:
        shown = self.minutes.drop_columns(list(HIDDEN)).to_pylist()
        for row, minute in zip(shown, instants(self.minutes["minute"]), strict=True):
            row["ms"] = int(minute) // 1_000
        found = {(row.pop("tenant"), row.pop("queue_id"), row.pop("ms")): row for row in shown}
        assert len(found) == len(shown)
        return found


@pytest.mark.slow
@given(history=sharded_histories())
def test_minutes_are_the_same_in_whichever_order_shards_are_read(history: Any) -> None:
    events, read, cuts = history
    minutes = Minutes()
    for start, end in zip([0, *cuts], cuts, strict=False):
        minutes.take(read[start:end])
    found = minutes.found_minutes()
    expected = expected_minutes(events, found)
    for row in expected.values():
        row.pop("n")
    assert found == expected


def renamed() -> list[dict[str, Any]]:
    """Two messages are sent to a queue, which is renamed before one of them is acked."""
    events = numbered(counted("sent", "received", "acked"), counted("sent", seq=2))
    for event in events:
        if event["kind"] in ("received", "acked"):
            event["queue"] = "renamed"
    return sorted(events, key=lambda event: event["at"])


def test_a_queue_that_is_renamed_keeps_its_level() -> None:
    minutes = Minutes()
    minutes.take(renamed())
    found = minutes.found_minutes()
    assert {key[1] for key in found} == {"id-orders"}
    levels = [(row["queue"], row["backlog"]) for _, row in sorted(found.items())]
    assert levels == [("orders", 2), ("renamed", 2), ("renamed", 1)]


def test_a_minute_in_which_a_queue_is_renamed_has_one_row_with_the_last_name() -> None:
    minutes = Minutes()
    minutes.take([event | {"at": START + number} for number, event in enumerate(renamed())])
    ((key, row),) = minutes.found_minutes().items()
    assert key == ("acme", "id-orders", plain.MINUTE * (START // plain.MINUTE))
    assert (row["queue"], row["sent"], row["acked"], row["backlog"]) == ("renamed", 2, 1, 1)


def test_rows_of_an_earlier_version_have_their_queue_by_its_name() -> None:
    minutes = Minutes()
    events = renamed()
    minutes.take(events[:2])
    ids = minutes.minutes.column_names.index("queue_id")
    minutes.minutes = minutes.minutes.set_column(ids, "queue_id", pa.nulls(len(minutes.minutes), pa.string()))
    minutes.take([event | {"queue": "orders"} for event in events[2:]])
    found = minutes.found_minutes()
    assert [row["backlog"] for _, row in sorted(found.items(), key=lambda one: one[0][2])] == [2, 2, 1]


def test_an_attempt_that_counts_for_nothing_is_an_attempt_of_its_listener() -> None:
    ends = [{"untried": True}, {"untried": True, "verdict": "retry"}, {"verdict": "delivered"}]
    events = [
        event | {"queue": "~shop", "queue_id": "shop", "detail": json.dumps(detail)}
        for event, detail in zip(counted("released", "released", "acked"), ends, strict=True)
    ]
    rows = pa.RecordBatch.from_pylist(events, schema=journal_schema())
    table = event_table.of_journal([rows], arrow_schema(event_table.SCHEMA, without=["batch"]))
    assert sorted(tally.count(table)["verdict"].to_pylist()) == ["delivered", "retry"]
