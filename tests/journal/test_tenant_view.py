"""Events with the numbers that a tenant sees: entries and columns are shown alike."""

import pyarrow as pa

from couriermq.core.events import Entry, Event
from couriermq.core.numbers import PLAIN, Numbering
from couriermq.journal import arrow
from couriermq.journal.schema import NAMES
from couriermq.journal.segments import entries_of
from couriermq.journal.tenant_view import show_entries, show_table

ENTRIES = [
    Entry(7, Event("tenant_added", 1, "acme", detail={"id": "acme"})),
    Entry(8, Event("queue_added", 2, "acme", "q1", "orders", detail={"key": 31, "name": "orders"})),
    Entry(9, Event("sent", 3, "acme", "q1", "orders", 41, "m1", 0, 1, "root", {"body": b"x", "content_type": "t"})),
    Entry(10, Event("sent", 3, "acme", "q1", "orders", 42, "erased-42", 0, 1, "root", None)),
    Entry(11, Event("acked", 4, "acme", "q1", "orders", 41, "m1", 1, 1, "root", {"key": "the sender's"})),
]
ACME = Numbering(b"k" * 32, bytes).of("acme")


def test_entries_and_columns_are_shown_alike() -> None:
    shown = show_entries(ENTRIES, ACME)
    assert entries_of(show_table(arrow.table(ENTRIES, NAMES), ACME)) == shown
    assert [entry.offset for entry in shown] == [ACME.offset(entry.offset) for entry in ENTRIES]
    assert [entry.event.seq for entry in shown] == [None, None, ACME.seq(41), ACME.seq(42), ACME.seq(41)]
    assert shown[3].event.message_id == f"erased-{ACME.seq(42)}"
    assert [entry.event.detail for entry in shown] == [
        {"id": "acme"}, {"name": "orders"}, {"content_type": "t", "body": b"x"}, None, {"key": "the sender's"},
    ]  # fmt: skip


def test_root_is_shown_events_as_they_are() -> None:
    assert show_entries(ENTRIES, PLAIN) is ENTRIES


def test_a_table_without_rows_or_with_few_columns_is_shown_too() -> None:
    columns = ["offset", "kind", "seq"]
    empty: pa.Table = show_table(arrow.table([], columns), ACME)
    assert (empty.num_rows, empty.column_names) == (0, columns)
    assert show_table(arrow.table(ENTRIES, columns), ACME)["seq"].to_pylist()[2] == ACME.seq(41)
