"""Taking messages out of a queue exactly once: `mode=consume`.

Each micro-batch is a claim, whose number is the offset. The server holds a claim's messages until it is acked, so that
a batch that is replayed gets the very same ones; it is acked when Spark has committed the batch.
"""

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.types import StructType

from couriermq.spark.incarnation import STORE, check_job
from couriermq.spark.journal import DataLoss, JournalError, ranges
from couriermq.spark.offsets import read_source
from couriermq.spark.options import CONSUME, MODES, OptionError, Options, read_options
from couriermq.spark.queues import Epoch, Job

if TYPE_CHECKING:
    pass

ROWS_PER_BATCH = 100_000
FEW_ROWS = 5_000
"""A task is worth its start for so many messages."""
TASKS = 4
REST_S = 0.2
"""How long a stream that has found nothing rests before it tells Spark so: Spark asks again at once."""

CLAIM, JOB = "claim", "job"
"""The keys of an offset, beside that of the store: the number, and whose it is."""

log = logging.getLogger(__name__)

Offset = dict[str, Any]


class Part(InputPartition):
    """Positions `start` up to, not including, `stop` of a claim: what one task reads."""

    def __init__(self, epoch: int, claim: int, start: int, stop: int) -> None:
        super().__init__(None)
        self.epoch = epoch
        self.claim = claim
        self.start = start
        self.stop = stop


class ConsumingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives twice: in the driver, where it opens the job and claims, and in executors, where it only reads."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._job = job_of(options)
        self._rows_per_batch = options.rows_per_batch or ROWS_PER_BATCH
        self._rows_per_partition = options.rows_per_partition
        self._fail_on_data_loss = options.fail_on_data_loss
        self._columns = tuple(field.name for field in schema.fields)
        if strange := sorted(set(self._columns) - {name for name, _ in MODES[CONSUME]}):
            raise OptionError(f"{strange[0]!r} is not a column of mode {CONSUME!r}")
        self._opened: Epoch | None = None
        self._ready_by: int | None = None
        self._acked = 0
        self._counts: dict[int, int] = {}

    # -- in the driver ----------------------------------------------------------------------------------------

    @property
    def _epoch(self) -> Epoch:
        """Opened when first needed: an instance that only plans must not shut out one that runs."""
        if self._opened is None:
            self._job.server.reach()
            self._opened = self._job.open()
            self._acked = self._opened.done
        return self._opened

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's names
        return self._offset(self._epoch.done)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._ready_by = self._epoch.opened_at

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Spark asks for the batch after `start` only when it has committed all up to `start`."""
        self._check_stamp(start)
        self.commit(start)
        number = self._next_after(start[CLAIM])
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._rows_per_batch
        count = self._job.claim(self._epoch.number, number, rows, self._ready_by)
        if count == 0:
            if self._ready_by is None:
                time.sleep(REST_S)
            return start
        self._counts = {number: count}
        return self._offset(number)

    def _offset(self, number: int) -> Offset:
        return {CLAIM: number, JOB: self._job.key, STORE: self._epoch.stamp}

    def _check_stamp(self, kept: Offset) -> None:
        advice = "free the job with `courier claims free`, then begin with a new checkpointLocation and a new job"
        check_job(self._epoch.stamp, kept, advice=advice)

    def _next_after(self, claim: int) -> int:
        done = self._epoch.done
        if claim < done:
            self._lose(f"claims {claim + 1} to {done} of job {self._job.name!r} were acked or freed by somebody else")
        return max(claim, done) + 1

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        for one in (start, end):
            self._check_stamp(one)
        parts: list[InputPartition] = []
        for number in range(start[CLAIM] + 1, end[CLAIM] + 1):
            count = self._count(number)
            step = min(self._rows_per_partition, max(FEW_ROWS, -(-count // TASKS)))
            parts += [Part(self._epoch.number, number, *piece) for piece in ranges(0, count, step)]
        return parts

    def _count(self, number: int) -> int:
        """How many messages a claim holds that the checkpoint knows of.

        It is never asked for as a new claim is: the server would make it of messages that the batch has never had.
        """
        if number not in self._counts:
            held = self._job.held()
            if number not in held:
                self._lose(
                    f"claim {number} of job {self._job.name!r} is not held: it was acked or freed, or queue"
                    f" {self._job.queue!r} was deleted and made again"
                )
                return 0
            self._counts[number] = held[number]
        return self._counts[number]

    def commit(self, end: Offset) -> None:
        """Comes one batch late, and never for the last one: see `latestOffset`."""
        epoch = self._epoch
        self._check_stamp(end)
        if end[CLAIM] > self._acked:
            self._job.ack(epoch.number, end[CLAIM])
            self._acked = end[CLAIM]

    # -- in executors -----------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> "Iterator[Any]":
        assert isinstance(partition, Part)
        part, rows = partition, 0
        for _, batch in self._job.read(part.epoch, part.claim, part.start, part.stop, self._columns):
            rows += batch.num_rows
            yield batch
        if rows < part.stop - part.start:
            missing = part.stop - part.start - rows
            self._lose(f"{missing} messages of claim {part.claim} were purged, or grew too old, before they were read")

    def _lose(self, sentence: str) -> None:
        if self._fail_on_data_loss:
            raise DataLoss(f"{sentence}. Set failOnDataLoss to false to go on without them")
        log.warning("%s: they are skipped", sentence)


def job_of(options: Options) -> Job:
    """Whom to consume as; raises OptionError where the options do not say."""
    if len(options.queues) != 1:
        raise OptionError("mode consume takes one queue; name it with the option queue")
    if not options.job:
        raise OptionError("mode consume needs a job: a name that belongs to the query's checkpoint and to no other")
    return Job(options.journal, options.tenant or "default", options.queues[0], options.job)


class ClaimKeeper(StreamingQueryListener):
    """Acks a batch's claim as soon as Spark has committed it, instead of when Spark asks for the next batch.

        spark.streams.addListener(ClaimKeeper(query="billing", url=url, token=token, queue="orders", job="billing"))

    `query` is the name of the query to follow; tenant, queue and job are named as in the source's options. Not needed
    for exactly once; of use where triggers are far apart.
    """

    def __init__(self, *, query: str, **options: str) -> None:
        self._query = query
        self._job = job_of(read_options({"mode": CONSUME, **options}))
        self._warned = False

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Spark describes sources alike, so that the offsets themselves say whose they are."""
        progress = event.progress
        if progress.name != self._query:
            return
        claims = [offset for source in progress.sources if CLAIM in (offset := read_source(source.endOffset))]
        ours = [offset[CLAIM] for offset in claims if offset.get(JOB) == self._job.key]
        if ours:
            self._ack(min(ours))
        elif any(JOB in offset for offset in claims):
            self._warn()

    def _warn(self) -> None:
        if not self._warned:
            tenant, queue, job = self._job.tenant, self._job.queue, self._job.name
            log.warning(
                "query %r has no source that consumes queue %r of tenant %r as job %r, in these words: its claims are"
                " acked with the next batch each",
                self._query, queue, tenant, job,
            )  # fmt: skip
            self._warned = True

    def _ack(self, claim: int) -> None:
        try:
            self._job.ack(self._job.epoch(), claim)
        except JournalError as error:
            log.warning("claim %d is acked with the next batch: %s", claim, error)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass
