"""The Arrow schema of the journal: what every reader of events in bulk can rely on.

Columns are only ever added, at the end. Types are the plain ones that Spark takes without a cast: 64-bit integers
and strings, all nullable; instants are epoch milliseconds as everywhere in Courier.
"""

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
)
"""`body` is the message's body where the event carries it; `detail` is the rest of the event's detail as JSON."""


@cache
def journal_schema() -> "pa.Schema":
    """The schema as pyarrow has it; pyarrow is loaded when somebody asks, not when the server starts."""
    import pyarrow as pa  # noqa: PLC0415

    types = {"int64": pa.int64(), "string": pa.string(), "binary": pa.binary()}
    return pa.schema([pa.field(name, types[kind]) for name, kind in COLUMNS])
