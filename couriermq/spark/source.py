"""The connector: `format("courier")` for batch and stream reads."""

import time
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from couriermq.journal.schema import ALWAYS
from couriermq.spark.consume import ConsumingReader
from couriermq.spark.cursors import advance_cursor
from couriermq.spark.incarnation import check, places_of, stamped
from couriermq.spark.journal import Wanted
from couriermq.spark.messages import KINDS, event_columns, to_messages
from couriermq.spark.options import CONSUME, MESSAGES, MODES, RANGES, OptionError, Options, read_options
from couriermq.spark.planner import Place, Places, Planner, planner_of
from couriermq.spark.queues import check_queues
from couriermq.spark.writer import BatchWriter, StreamWriter

if TYPE_CHECKING:
    import pyarrow as pa

TABLES_ANEW = "make the tables anew with `courier pipeline rebuild`, or fill another folder"
REST_S = 0.2
"""How long a stream that has read everything rests before it tells Spark so: Spark asks again at once."""


class CourierSource(DataSource):
    """Reads what happened in Courier, in batches and as a stream; consumes queues, and writes into them.

    ```python
    events = spark.read.format("courier").option("url", "http://127.0.0.1:8080").option("token", token).load()
    orders = spark.readStream.format("courier").options(mode="messages", queue="orders").load()
    taken = spark.readStream.format("courier").options(mode="consume", queue="orders", job="billing").load()
    bills.writeStream.format("courier").option("queue", "bills").option("checkpointLocation", place).start()
    ```

    Modes
    -----
    `events` (default): every event of the journal, with the journal's columns: `offset`, `kind`, `at` (epoch
    milliseconds), `tenant`, `queue_id`, `queue`, `seq`, `message_id`, `attempt`, `size`, `principal`, `body` (binary),
    `detail` (JSON).

    `messages`: every message that was sent, with its body: `offset`, `seq`, `message_id`, `tenant`, `queue_id`,
    `queue`, `sent_at` (epoch milliseconds), `size`, `principal`, `content_type`, `attributes` (JSON), `group`,
    `delay_ms`, `trace`, `body` (binary). Reading takes nothing out of a queue. Body and attributes are null where a
    queue's `archive_bodies` is false.

    `ranges`: where the events are, one row for each task: `start`, and `stop`, which is not part of it. For jobs whose
    tasks fetch the events themselves, with `couriermq.spark.journal.Journal`, and do not want them as rows.
    Root only.

    `consume` (streams only): takes the messages of one queue out of it, each exactly once. Columns: `seq`,
    `message_id`, `tenant`, `queue_id`, `queue`, `sent_at`, `entered_at` (epoch milliseconds), `attempts`, `size`,
    `content_type`, `attributes` (JSON), `group`, `delay_ms`, `trace`, `body` (binary). A micro-batch is a claim: the
    server holds its messages, shown as leased, until Spark has committed the batch, and acks them when Spark asks for
    the next one. A job whose driver is started again shuts out the driver that it replaces. What a job that is gone
    still holds is seen with `courier claims list` and given back with `courier claims free`.

    Fewer columns are read, and sent over the network, when `.schema(...)` names fewer.

    Options
    -------
    url                 the server; without it COURIER_URL of the driver, else http://127.0.0.1:8080
    token               root's token, or a credential's secret with the scope `stats`; without it COURIER_TOKEN of the
                        driver. A credential of a tenant sees positions, texts that only the server can count with,
                        wherever offsets are spoken of here, and limits count the tenant's own events
    caFile              for https, a file with the certificates of the authority to trust, where the system's do not
                        do; on the driver and on every executor
    tenant              only this tenant's (root reads everybody's)
    queue, queues       only these queues, by name or id; `queues` takes several with commas between them
    mode                events, messages, ranges or consume
    job                 (consume) whose claims they are: one name for one checkpoint
    startingOffset      earliest (default), latest, an offset, or a time such as 2026-01-31T12:00:00Z; a stream that
                        has a checkpoint goes on from there instead. Of a journal with several lanes, an offset
                        means its lane only; {"0": 1200, "0.1": 2199023255600} speaks of several
    endingOffset        the same, for batch reads; latest by default; the offset itself is not read
    maxRecordsPerBatch  a micro-batch covers at most so many offsets; consume: messages, 100000 by default
    rowsPerPartition    a task covers about so many offsets, 1000000 by default; it ends where a segment of the archive
                        does if one does near there
    failOnDataLoss      true (default): offsets that the server no longer has end the query; false: they are skipped
    acceptIncarnation   false (default): a stream whose checkpoint is of an earlier incarnation of the store, which was
                        restored since, ends; true: it goes on if it has read nothing that was lost
    cursor              the name of a cursor that follows a stream and holds the server's retention back (root only):
                        when the stream looks for news it is behind the last batch that Spark has committed

    Writing
    -------
    A write, batch or stream, has a column `body` (text or binary) and, as wanted, `content_type`, `attributes` (a map,
    or a JSON object as text), `id`, `delay_ms`, `retention_ms`, `group` and `dedup_id`. It goes to the `queue`, or
    through the `exchange`, that the option of that name gives; the token needs the scope `send` there. Tasks bring
    their rows to the server, which keeps them out of sight; when all are there they are published at a stroke.

    queue, exchange     where to: one of the two
    series, number      (batch) publish under this name and number: of a series whose number is that high already
                        nothing is sent; for writes inside foreachBatch, with the batch's id as the number

    Promises
    --------
    A stream that writes publishes each batch once, whatever is killed when; a batch write that fails has sent nothing.
    Offsets are journal offsets: the same range gives the same rows, if not always in the same tasks, so a stream that
    is replayed after a crash is exactly once with a sink that is. A server that restarts is waited for. Progress shows
    offsets as an object with one for each lane and the store, such as {"0": 1200, "store": "…/1"}, and the newest ones
    of the server as `latestOffset`, so that the backlog is its distance from `endOffset`.
    """

    @classmethod
    def name(cls) -> str:
        return "courier"

    def schema(self) -> str:
        return read_options(self.options).schema

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options)
        if options.mode == CONSUME:
            raise OptionError("mode consume is for streams; use readStream, with trigger(availableNow=True) to end it")
        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's names
        options = read_options(self.options)
        return ConsumingReader(options, schema) if options.mode == CONSUME else StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return BatchWriter(read_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return StreamWriter(read_options(self.options), schema, overwrite=overwrite)


class Range(InputPartition):
    """From `start` up to, not including, `stop`, offsets or positions of one lane: what one task reads."""

    def __init__(self, start: Place, stop: Place, lane: int = 0) -> None:
        super().__init__(None)
        self.start = start
        self.stop = stop
        self.lane = lane

    def as_row(self, columns: Sequence[str]) -> "pa.RecordBatch":
        import pyarrow as pa  # noqa: PLC0415

        row = {"start": self.start, "stop": self.stop}
        return pa.record_batch({name: pa.array([row[name]], pa.int64()) for name in columns})


class JournalReader:
    """Reads ranges; what a batch and a stream have in common."""

    _planner: Planner | None = None

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.columns = tuple(field.name for field in schema.fields)
        if strange := sorted(set(self.columns) - {name for name, _ in MODES[options.mode]}):
            raise OptionError(f"{strange[0]!r} is not a column of mode {options.mode!r}")
        self._whole = ALWAYS & {field.name for field in schema.fields if not field.nullable}

    def check_source(self) -> None:
        """Find out in the driver, before the first task: is the server there, and are the queues?"""
        self.options.journal.reach()
        check_queues(self.options.journal, self.options.tenant, self.options.queues)

    @property
    def planner(self) -> Planner:
        """Made when the driver first needs it: it asks the server what the token sees."""
        if self._planner is None:
            self._planner = planner_of(self.options, self._wanted)
        return self._planner

    @property
    def _wanted(self) -> Wanted:
        options, of_messages = self.options, self.options.mode == MESSAGES
        columns = event_columns(self.columns) if of_messages else self.columns
        return Wanted(columns, options.tenant, options.queues, KINDS if of_messages else ())

    def parts(self, start: Places, end: Places) -> list[InputPartition]:
        return [Range(one.start, one.stop, one.lane) for one in self.planner.stretches(start, end)]

    def batches(self, part: Range) -> "Iterator[pa.RecordBatch]":
        """In the executor: the rows of one range."""
        if self.options.mode == RANGES:
            yield part.as_row(self.columns)
            return
        of_messages, hidden = self.options.mode == MESSAGES, bool(self.options.queues)
        for batch in self._read(part):
            rows = to_messages(batch, self.columns, hidden=hidden) if of_messages else batch
            yield without_nulls(rows, self._whole) if self._whole else rows

    def _read(self, part: Range) -> "Iterator[pa.RecordBatch]":
        journal, lossy = self.options.journal, not self.options.fail_on_data_loss
        if isinstance(part.start, str) or isinstance(part.stop, str):
            start, stop = str(part.start), str(part.stop)
            return journal.read_positions(start, stop, self._wanted, lane=part.lane, lossy=lossy)
        return journal.read(part.start, part.stop, self._wanted, lossy=lossy)


def without_nulls(batch: "pa.RecordBatch", names: Set[str]) -> "pa.RecordBatch":
    """The batch with a schema that says which columns have no nulls: Spark compares it with its own."""
    import pyarrow as pa  # noqa: PLC0415

    schema = pa.schema([field.with_nullable(field.name not in names) for field in batch.schema])
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


class BatchReader(JournalReader, DataSourceReader):
    """Reads what there is when the query is planned."""

    def partitions(self) -> list[InputPartition]:
        self.check_source()
        return self.parts(self.planner.start(), self.planner.end())

    def read(self, partition: InputPartition | None) -> "Iterator[Any]":
        """Spark calls it without a partition where there are none."""
        return self.batches(partition) if isinstance(partition, Range) else iter(())


class StreamReader(JournalReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on from offsets to offsets, or from positions to positions."""

    _initial: Places | None = None
    _target: Places | None = None
    _passed: Places | None = None
    """Where the cursor was put last."""
    _checked = False

    def initialOffset(self) -> Places:  # noqa: N802
        """Spark asks more than once, and between two answers nothing may be lost: `latest` is where it was first."""
        if self._initial is None:
            self._check_once()
            self._initial = stamped(self.planner.start(), self.options.journal.stamp())
            self._keep(places_of(self._initial))
        return self._initial.copy()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self.options.rows_per_batch
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._check_once()
        self._target = self.reportLatestOffset()

    def latestOffset(self, start: Places, limit: ReadLimit) -> Places:  # noqa: N802
        """Spark asks when it has committed everything up to `start`; of the last batch it says so in no other way."""
        self._check_once()
        stamp, places = self._check_stamp(start), places_of(start)
        self._keep(places)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = self.planner.advance(places, places_of(self._target) if self._target else None, most)
        if end != places:
            return stamped(end, stamp)
        if self._target is None:
            time.sleep(REST_S)
        return start

    def _check_once(self) -> None:
        """When the stream begins, with or without a checkpoint; later a server that is away is waited for."""
        if not self._checked:
            self.check_source()
            self._checked = True

    def reportLatestOffset(self) -> Places:  # noqa: N802
        return stamped(self.planner.newest(), self.options.journal.stamp())

    def partitions(self, start: Places, end: Places) -> list[InputPartition]:
        for one in (start, end):
            self._check_stamp(one)
        return self.parts(places_of(start), places_of(end))

    def _check_stamp(self, kept: Places) -> str:
        advice = TABLES_ANEW if self.options.mode == RANGES else "begin with a new checkpointLocation"
        return check(self.options.journal, kept, advice=advice, accept=self.options.accept_incarnation)

    def read(self, partition: InputPartition) -> "Iterator[Any]":
        assert isinstance(partition, Range)
        return self.batches(partition)

    def commit(self, end: Places) -> None:
        """Comes when the next batch has begun: `latestOffset` knew before."""

    def _keep(self, offsets: Places) -> None:
        if self.options.cursor is not None and offsets != self._passed:
            advance_cursor(self.options.journal, self.options.cursor, offsets)
            self._passed = offsets.copy()
