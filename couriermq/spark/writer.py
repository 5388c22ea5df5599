"""Writing into a queue or an exchange exactly once: executors stage, the driver publishes.

A batch is published under the query's id and the batch's number: doing it again, after a crash anywhere, sends nothing
twice.
"""

import json
import logging
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from couriermq.journal.schema import STAGED_COLUMNS, arrow_schema
from couriermq.spark.journal import JournalError
from couriermq.spark.options import OptionError, Options
from couriermq.spark.queues import Outlet

if TYPE_CHECKING:
    import pyarrow as pa

PART_ROWS = 5_000
PART_BYTES = 4 * 1024 * 1024
"""A part of a stage, which is one request, has at most so many rows and, unless it is one row, bytes."""

TYPES: dict[str, tuple[type[DataType], ...]] = {
    "int64": (LongType, IntegerType, ShortType),
    "string": (StringType,),
    "binary": (BinaryType, StringType),
}
QUERY_ID = "sql.streaming.queryId"

log = logging.getLogger(__name__)


class Staged(WriterCommitMessage):
    """What a task has staged, if it had any rows, in how many parts, and for which query."""

    def __init__(self, stage: str | None, query: str | None, parts: int = 0) -> None:
        self.stage = stage
        self.query = query
        self.parts = parts


class Key(NamedTuple):
    """Under which a batch is published."""

    series: str
    number: int


class QueueWriter:
    """What batch and stream writes have in common."""

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("format('courier') only appends; use mode('append')")
        check_columns(schema)
        self.outlet = outlet_of(options)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """In the executor: every attempt of a task has a stage of its own."""
        stage, part = _fresh_name(), 0
        for batch in iterator:
            for piece in pieces(to_wire(batch)):
                self.outlet.stage(stage, part, to_stream(piece))
                part += 1
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY_ID) if context else None
        return Staged(stage if part else None, query, part)

    def publish(self, messages: Sequence[WriterCommitMessage | None], key: Key | None) -> None:
        if key is not None:
            self.outlet.publish(key.series, key.number, stages_of(messages))

    def give_up(self, messages: Sequence[WriterCommitMessage | None], key: Key | None) -> None:
        """Drop what was staged, unless it was published after all and only the answer was lost."""
        try:
            if key is not None and self.outlet.published(key.series) >= key.number:
                return
            for stage in stages_of(messages):
                self.outlet.drop(stage)
        except JournalError as error:
            log.warning("stages are left for the server to forget: %s", error)


class BatchWriter(QueueWriter, DataSourceArrowWriter):
    """A write of its own each time, unless the options say which one it is."""

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        if (options.series is None) != (options.number is None):
            raise OptionError("series and number belong together; give both or neither")
        self._key = Key(options.series or _fresh_name(), options.number or 0)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.publish(messages, self._key)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.give_up(messages, self._key)


class StreamWriter(QueueWriter, DataSourceStreamArrowWriter):
    """A batch of a streaming query, whose id its tasks know."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self.publish(messages, _key_of(messages, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.give_up(messages, _key_of(messages, batchId))


def _fresh_name() -> str:
    """One that nobody else has."""
    from couriermq.clock import fresh_key  # noqa: PLC0415 -- asyncio comes with it, and each stream would start later

    return fresh_key()[:16].hex()


def stages_of(messages: Sequence[WriterCommitMessage | None]) -> dict[str, int]:
    """In the order of the partitions, each with its number of parts; a task that failed has none."""
    return {message.stage: message.parts for message in messages if isinstance(message, Staged) and message.stage}


def _key_of(messages: Sequence[WriterCommitMessage | None], batch: int) -> Key | None:
    """None where no task has run: then there is nothing to publish either."""
    queries = [message.query for message in messages if isinstance(message, Staged) and message.query]
    return Key(queries[0], batch) if queries else None


def outlet_of(options: Options) -> Outlet:
    if len(options.queues) + (options.exchange is not None) != 1:
        raise OptionError("a write goes to one queue or one exchange; name it with the option queue or exchange")
    kind, name = ("exchanges", options.exchange) if options.exchange else ("queues", options.queues[0])
    return Outlet(options.journal, options.tenant or "default", kind, name or "")


# -- columns ------------------------------------------------------------------------------------------------------


def check_columns(schema: StructType) -> None:
    """In the driver: columns that cannot be sent end the query before it begins."""
    known = dict(STAGED_COLUMNS)
    if "body" not in schema.names:
        raise OptionError("a write needs a column body, of text or binary")
    for field in schema.fields:
        if field.name not in known:
            raise OptionError(f"{field.name!r} is not a column that can be written; choose from {', '.join(known)}")
        if field.name == "attributes" and isinstance(field.dataType, MapType):
            continue
        if not isinstance(field.dataType, TYPES[known[field.name]]):
            raise OptionError(f"column {field.name} is {field.dataType.simpleString()}; it must be {known[field.name]}")


def to_wire(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """The columns as the server takes them."""
    import pyarrow as pa  # noqa: PLC0415

    ours = arrow_schema(STAGED_COLUMNS)
    arrays = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        wanted = ours.field(name).type
        if pa.types.is_map(column.type):
            arrays.append(pa.array([_attributes(pairs) for pairs in column.to_pylist()], wanted))
        elif name == "body" and pa.types.is_string(column.type):
            arrays.append(column)
        else:
            arrays.append(column.cast(wanted))
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _attributes(pairs: list[tuple[str, Any]] | None) -> str | None:
    held = {name: value for name, value in pairs or () if value is not None}
    return json.dumps(held, ensure_ascii=False, separators=(",", ":")) if held else None


def pieces(batch: "pa.RecordBatch") -> "Iterator[pa.RecordBatch]":
    """The batch in pieces that one request can carry."""
    ends = _ends(batch)
    first, sent = 0, 0
    while first < batch.num_rows:
        fitting = bisect_right(ends, sent + PART_BYTES, lo=first, key=_number)
        last = min(first + PART_ROWS, max(first + 1, fitting))
        yield batch.slice(first, last - first)
        first, sent = last, _number(ends[last - 1])


def _ends(batch: "pa.RecordBatch") -> Any:
    """How many bytes the rows are up to each one, and with it."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    fixed = sum(column.type.byte_width for column in batch.columns if pa.types.is_integer(column.type))
    sizes = pa.repeat(pa.scalar(fixed, pa.int64()), batch.num_rows)
    for column in batch.columns:
        if not pa.types.is_integer(column.type):
            sizes = pc.add(sizes, pc.fill_null(pc.binary_length(column), 0))
    return pc.cumulative_sum(sizes)


def _number(scalar: Any) -> int:
    return int(scalar.as_py())


def to_stream(batch: "pa.RecordBatch") -> bytes:
    import pyarrow as pa  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
