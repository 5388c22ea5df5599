"""Events as an Arrow stream."""

import subprocess
import sys

import msgspec
import pyarrow as pa

from couriermq.core.events import Entry, Event
from couriermq.journal import arrow
from couriermq.journal.schema import COLUMNS, journal_schema

SENT = Entry(
    5,
    Event(
        kind="sent", at=100, tenant="acme", queue_id="q1", queue="orders", seq=7, message_id="m", attempt=0, size=2,
        principal="root", detail={"body": b"\xff\x00", "content_type": "text/plain", "attributes": {"n": 1, "s": "ü"}},
        turn=1, sent_at=100,
    ),
)  # fmt: skip
PURGED = Entry(6, Event(kind="purged", at=101, tenant="acme"))


def read(*parts: bytes) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = pa.ipc.open_stream(b"".join(parts)).read_all().to_pylist()
    return rows


def test_a_stream_is_a_head_batches_and_an_end() -> None:
    rows = read(arrow.head(), arrow.batch([SENT]), arrow.batch([PURGED, SENT]), arrow.END)
    assert [row["offset"] for row in rows] == [5, 6, 5]


def test_a_stream_that_breaks_off_can_be_read_up_to_its_last_whole_batch() -> None:
    torn = arrow.head() + arrow.batch([SENT]) + arrow.batch([PURGED])[:-8]
    reader = pa.ipc.open_stream(torn)
    assert reader.read_next_batch().num_rows == 1


def test_the_body_has_its_own_column_and_the_rest_of_the_detail_is_json() -> None:
    (row,) = read(arrow.head(), arrow.batch([SENT]), arrow.END)
    assert row.pop("body") == b"\xff\x00"
    assert msgspec.json.decode(str(row.pop("detail"))) == {
        "content_type": "text/plain",
        "attributes": {"n": 1, "s": "ü"},
    }
    assert row == {
        "offset": 5, "kind": "sent", "at": 100, "tenant": "acme", "queue_id": "q1", "queue": "orders", "seq": 7,
        "message_id": "m", "attempt": 0, "size": 2, "principal": "root", "turn": 1, "sent_at": 100,
    }  # fmt: skip


def test_what_an_event_does_not_have_is_null() -> None:
    (row,) = read(arrow.head(), arrow.batch([PURGED]), arrow.END)
    assert {name for name, value in row.items() if value is not None} == {"offset", "kind", "at", "tenant"}


def test_every_field_of_an_event_has_its_column_in_the_same_order() -> None:
    fields = Event.__struct_fields__
    place = fields.index("detail")
    assert [name for name, _ in COLUMNS] == ["offset", *fields[:place], "body", *fields[place:]]


def test_the_types_are_those_that_spark_takes_without_a_cast() -> None:
    assert {str(field.type) for field in journal_schema()} == {"int64", "string", "binary"}
    assert all(field.nullable for field in journal_schema())


def test_nobody_pays_for_pyarrow_who_does_not_ask_for_it() -> None:
    script = "import sys, couriermq.journal.arrow, couriermq.dialects.native; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
