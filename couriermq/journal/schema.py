"""The schema of the journal, for Arrow and for Spark: what every reader of events in bulk can rely on.

Columns are only ever added, at the end. Types are the plain ones that Spark takes without a cast: 64-bit integers
and strings, all nullable; instants are epoch milliseconds as everywhere in Courier.
"""

from collections.abc import Sequence, Set
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: tuple[tuple[str, str], ...] = (
    ("offset", "int64"),
    ("kind", "string"),
    ("at", "int64"),
    ("tenant", "string"),
    ("queue_id", "string"),
    ("queue", "string"),
    ("seq", "int64"),
    ("message_id", "string"),
    ("attempt", "int64"),
    ("size", "int64"),
    ("principal", "string"),
    ("body", "binary"),
    ("detail", "string"),
    ("turn", "int64"),
    ("sent_at", "int64"),
)
"""`body` is the message's body where the event carries it; `detail` is the rest of the event's detail as JSON."""

ALWAYS = frozenset({"offset", "kind", "at", "tenant"})
"""Columns that every event has a value in. Spark is told so, and looks for no nulls there; files promise nothing."""

REPEATING = ["kind", "tenant", "queue_id", "queue", "principal", "detail"]
"""Columns whose values come again and again, so that a dictionary pays."""

MESSAGE_COLUMNS: tuple[tuple[str, str], ...] = (
    ("offset", "int64"),
    ("seq", "int64"),
    ("message_id", "string"),
    ("tenant", "string"),
    ("queue_id", "string"),
    ("queue", "string"),
    ("sent_at", "int64"),
    ("size", "int64"),
    ("principal", "string"),
    ("content_type", "string"),
    ("attributes", "string"),
    ("group", "string"),
    ("delay_ms", "int64"),
    ("trace", "string"),
    ("body", "binary"),
)
"""A message as it was sent; `attributes` is a JSON object. Body and attributes are null where a queue archives none."""

CLAIMED_COLUMNS: tuple[tuple[str, str], ...] = (
    ("position", "int64"),
    ("seq", "int64"),
    ("message_id", "string"),
    ("tenant", "string"),
    ("queue_id", "string"),
    ("queue", "string"),
    ("sent_at", "int64"),
    ("entered_at", "int64"),
    ("attempts", "int64"),
    ("size", "int64"),
    ("content_type", "string"),
    ("attributes", "string"),
    ("group", "string"),
    ("delay_ms", "int64"),
    ("trace", "string"),
    ("body", "binary"),
)
"""A message as a claim holds it, at its position there."""

STAGED_COLUMNS: tuple[tuple[str, str], ...] = (
    ("body", "binary"),
    ("content_type", "string"),
    ("attributes", "string"),
    ("id", "string"),
    ("delay_ms", "int64"),
    ("retention_ms", "int64"),
    ("group", "string"),
    ("dedup_id", "string"),
)
"""A message to send; `attributes` is a JSON object. The body may be text, and only the body must be there."""

NAMES = tuple(name for name, _ in COLUMNS)
_SPARK = {"int64": "BIGINT", "string": "STRING", "binary": "BINARY"}


def journal_schema(columns: Sequence[str] | None = None) -> "pa.Schema":
    """The schema as pyarrow has it, of all columns or of some, in the order in which they are named."""
    return arrow_schema(COLUMNS if columns is None else tuple((name, dict(COLUMNS)[name]) for name in columns))


@cache
def arrow_schema(columns: tuple[tuple[str, str], ...]) -> "pa.Schema":
    """Columns as pyarrow has them; pyarrow is loaded when somebody asks, not when the server starts."""
    import pyarrow as pa  # noqa: PLC0415

    types = {"int64": pa.int64(), "string": pa.string(), "binary": pa.binary()}
    return pa.schema([pa.field(name, types[kind]) for name, kind in columns])


def conform(table: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    """The table with exactly these columns: a file of an older Courier may lack some."""
    import pyarrow as pa  # noqa: PLC0415

    present = set(table.column_names)
    columns = [
        table.column(field.name).cast(field.type) if field.name in present else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def spark_schema(columns: tuple[tuple[str, str], ...] = COLUMNS, *, always: Set[str] = frozenset()) -> str:
    """The same columns as Spark reads them in SQL; those that `always` have a value say so."""
    ends = dict.fromkeys(always, " NOT NULL")
    return ", ".join(f"`{name}` {_SPARK[kind]}{ends.get(name, '')}" for name, kind in columns)
