"""The datasets: their names and fields as the vendor has them, and where their rows come from."""

from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from couriermq.core.consumers import consumer_of
from couriermq.core.model import DAY, HOUR, MINUTE, Counters, Queue
from couriermq.dialects.cloudflare.graphql.rows import Row
from couriermq.lake.stats import Step
from couriermq.web.services import Services

FINE_MS = 2 * DAY
"""Windows up to this are answered from minutes, longer ones from hours."""
UNIT_BYTES = 64_000
"""The vendor counts an operation for every 64 KB of a message that is begun."""
CONSUMER_WORDS = {"worker": "worker", "http_pull": "http"}


class Dataset(msgspec.Struct, frozen=True):
    """`words` are its dimensions beside those of time; `rows` makes the rows of a queue."""

    field: str
    title: str
    words: tuple[str, ...]
    avg: tuple[str, ...]
    sum: tuple[str, ...]
    max: tuple[str, ...]
    rows: Callable[["Source"], Sequence[Row]]


class Source(msgspec.Struct, frozen=True):
    """What is known of a queue in a window."""

    queue: Queue
    queue_id: str
    steps: list[Step]
    counters: Counters
    concurrency: dict[int, float]
    start: int
    end: int


def _mean_size(source: Source) -> float:
    """Bytes of a message: of those that were sent in the window, or else of those that wait."""
    sent = sum(step.counts["sent"] for step in source.steps)
    if sent:
        return sum(step.counts["bytes"] for step in source.steps) / sent
    return source.counters.byte_count / max(source.counters.total_count, 1)


def _backlog(source: Source) -> list[Row]:
    """How many messages there were at the end of each step; their bytes are reckoned with the mean size."""
    size, words = _mean_size(source), {"queueId": source.queue_id}
    return [
        Row(step.at, words, 1, {"messages": step.backlog, "bytes": step.backlog * size, "sampleInterval": 1.0})
        for step in source.steps
    ]


def _concurrency(source: Source) -> list[Row]:
    words = {"queueId": source.queue_id}
    return [
        Row(at, words, 1, {"concurrency": mean, "sampleInterval": 1.0})
        for at, mean in sorted(source.concurrency.items())
        if source.start <= at < source.end
    ]


def _operations(source: Source) -> list[Row]:
    consumer = consumer_of(source.queue)
    kind = CONSUMER_WORDS.get(consumer.type, "") if consumer else ""
    size, rows = _mean_size(source), []
    for step in source.steps:
        counts = step.counts
        retries = counts["released"] + counts["expired"]
        operations = (
            ("WriteMessage", "", "", counts["sent"], counts["bytes"], None, None),
            ("ReadMessage", kind, "", counts["received"], None, None, retries),
            ("DeleteMessage", kind, "success", counts["acked"], None, step.quantiles[0], None),
            ("DeleteMessage", kind, "dlq", counts["dead_lettered"], None, None, None),
            ("DeleteMessage", kind, "fail", counts["discarded"], None, None, None),
        )
        for action, by, outcome, count, total, lag, tries in operations:
            if count:
                words = {
                    "queueId": source.queue_id, "actionType": action, "consumerType": by, "outcome": outcome,
                }  # fmt: skip
                amount = round(count * size) if total is None else total
                avg = {"lagTime": lag, "retryCount": None if tries is None else tries / count, "sampleInterval": 1.0}
                units = count * max(1, -(-round(amount / count) // UNIT_BYTES))
                sums = {"billableOperations": units, "bytes": amount}
                rows.append(Row(step.at, words, count, avg, sums, {"messageSize": None}, count))
    return rows


DATASETS = (
    Dataset(
        "queueBacklogAdaptiveGroups",
        "AccountQueueBacklogAdaptiveGroups",
        ("queueId",),
        ("messages", "bytes", "sampleInterval"),
        (),
        (),
        _backlog,
    ),
    Dataset(
        "queueConsumerMetricsAdaptiveGroups",
        "AccountQueueConsumerMetricsAdaptiveGroups",
        ("queueId",),
        ("concurrency", "sampleInterval"),
        (),
        (),
        _concurrency,
    ),
    Dataset(
        "queueMessageOperationsAdaptiveGroups",
        "AccountQueueMessageOperationsAdaptiveGroups",
        ("queueId", "actionType", "consumerType", "outcome"),
        ("lagTime", "retryCount", "sampleInterval"),
        ("billableOperations", "bytes"),
        ("messageSize",),
        _operations,
    ),
)


async def sources(
    services: Services, queues: Sequence[tuple[str, Queue]], *, start: int, end: int
) -> AsyncIterator[Source]:
    """What the statistics say of each queue, one after the other, so that other calls have their turns between."""
    step, now = step_ms(start, end), services.clock.now()
    for queue_id, queue in queues:
        counters = await services.broker.counters(queue)
        course = await services.stats.of(queue, counters, start=start, end=end, step=step, now=now)
        steps = [one for one in course.steps if one.at + step > start and one.at < end]
        yield Source(queue, queue_id, steps, counters, services.deliveries.concurrency(queue), start, end)


def step_ms(start: int, end: int) -> int:
    return MINUTE if end - start <= FINE_MS else HOUR
