"""Events as an Arrow IPC stream, which is a head, record batches and an end, each made on its own.

b"".join([head(), batch(entries), batch(more), END])
"""

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec

from couriermq.core.chronicle import Chronicle, Commit, Run, unpack_runs
from couriermq.core.events import Entry
from couriermq.journal.schema import journal_schema

if TYPE_CHECKING:
    import pyarrow as pa

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""A continuation marker and a length of zero: nothing follows."""

_encode = msgspec.json.Encoder().encode


class StreamWriter:
    """A stream whose record batches carry metadata: what was written since the last `take` is what to send next."""

    def __init__(self, columns: Sequence[str] | None = None) -> None:
        import pyarrow as pa  # noqa: PLC0415

        self._sink = BytesIO()
        self._schema = journal_schema(columns)
        self._writer = pa.ipc.new_stream(self._sink, self._schema)

    def write(self, table: "pa.Table", metadata: Mapping[str, str]) -> bytes:
        """The table, which may be empty, as one record batch."""
        import pyarrow as pa  # noqa: PLC0415

        arrays = [column.combine_chunks() for column in table.select(self._schema.names).columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema), custom_metadata=metadata)
        return self._take()

    def close(self) -> bytes:
        self._writer.close()
        return self._take()

    def _take(self) -> bytes:
        written = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return written


def head(columns: Sequence[str] | None = None) -> bytes:
    """The schema, with which every stream begins."""
    return bytes(journal_schema(columns).serialize())


def batch(entries: Sequence[Entry], columns: Sequence[str] | None = None) -> bytes:
    """The entries as one record batch of the stream."""
    whole = record_batch(entries)
    return bytes((whole if columns is None else whole.select(list(columns))).serialize())


def table(entries: Sequence[Entry], columns: Sequence[str]) -> "pa.Table":
    """The entries as a table with these columns."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.Table.from_batches([record_batch(entries)]).select(list(columns))


def record_batch(entries: Sequence[Entry]) -> "pa.RecordBatch":
    """The entries as columns, in the order of the schema."""
    chronicle = Chronicle()
    chronicle.extend(entry.event for entry in entries)
    return _columns([entry.offset for entry in entries], chronicle.runs)


def commits_batch(commits: Sequence[Commit], *, start: int, stop: int) -> "pa.RecordBatch":
    """The events of commits that follow each other as columns: those of offsets `start` up to `stop`."""
    first, end = commits[0].start, commits[-1].start + commits[-1].count
    whole = _columns(range(first, end), [run for commit in commits for run in unpack_runs(commit.events)])
    begin = max(start, first)
    return whole.slice(begin - first, max(0, min(stop, end) - begin))


def _columns(offsets: Sequence[int], runs: Iterable[Run]) -> "pa.RecordBatch":
    """Every event on its way into the archive comes by here: what a run shares is written once and repeated."""
    import pyarrow as pa  # noqa: PLC0415

    schema = journal_schema()
    columns: list[list[Any]] = [[] for _ in schema]
    for run in runs:
        count = len(run)
        rest = None if not run.detail else _encode(run.detail)
        parts: tuple[Sequence[Any], ...] = (
            [run.kind] * count, run.ats, [run.tenant] * count, [run.queue_id] * count, [run.queue] * count, run.seqs,
            run.message_ids, run.attempts, run.sizes, [run.principal] * count, run.bodies or [None] * count,
            [rest] * count, run.all_turns(), run.sent_ats(),
        )  # fmt: skip
        for column, part in zip(columns[1:], parts, strict=True):
            column.extend(part)
    columns[0] = list(offsets)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
