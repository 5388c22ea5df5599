"""The stats API: live figures from the broker, the past from the history."""

import msgspec

from couriermq.core.errors import Invalid, QueueNotFound
from couriermq.core.model import DAY, HOUR, SECOND, Json, Queue
from couriermq.dialects.anypoint import place, rights
from couriermq.dialects.anypoint.asking import choice, names, reply, reply_list, required
from couriermq.dialects.anypoint.dates import point_date, read_date, usage_date
from couriermq.dialects.anypoint.history import ExchangePoint, History, QueuePoint, UsagePoint, Window
from couriermq.dialects.anypoint.journal_history import JournalHistory
from couriermq.dialects.anypoint.limits import check_range
from couriermq.dialects.anypoint.wire import whole_or_none
from couriermq.lake.border import HEADER, describe
from couriermq.web.call import JSON_TYPE, Call, Reply

PERIODS = {"1hour": HOUR, "1day": DAY, "1month": None}
PERIOD_SECONDS = 86_400

QUEUE_SERIES = {
    "messages": "waiting_count",
    "inflightMessages": "leased_count",
    "messagesVisible": "waiting_count",
    "messagesSent": "sent_count",
    "messagesReceived": "received_count",
    "messagesAcked": "acked_count",
}
EXCHANGE_SERIES = {"messagesPublished": "published_count", "messagesDelivered": "delivered_count"}


class Stats:
    """The handlers, and the history that they share once the first of them has asked for it."""

    def __init__(self, history: History | None = None) -> None:
        self._history = history

    def history(self, call: Call) -> History:
        if self._history is None:
            self._history = JournalHistory(call.services.broker, call.services.clock, lake=call.services.lake)
        return self._history

    async def queues_now(self, call: Call) -> Reply:
        """Live figures of those of the named queues that exist."""
        tenant = place.tenant(call)
        rights.require_any(call, *rights.LOOK_AT_STATS)
        required(call, "destinationIds")
        asked = names(call, "destinationIds")
        found = [queue for name in asked if (queue := _visible_queue(call, tenant, name))]
        return reply_list(call, [await _live(call, queue) for queue in found])

    async def queue_history(self, call: Call) -> Reply:
        queue = rights.queue(call, *rights.LOOK_AT_STATS)
        points = await self.history(call).of_queue(queue, _window(call))
        return self._reply({"destination": queue.name} | _series(points, QUEUE_SERIES))

    async def exchange_history(self, call: Call) -> Reply:
        exchange = rights.exchange(call, *rights.LOOK_AT_STATS)
        points = await self.history(call).of_exchange(exchange, _window(call))
        return self._reply({"destination": exchange.name} | _series(points, EXCHANGE_SERIES))

    async def environment_usage(self, call: Call) -> Reply:
        return await self._usage(call, [place.tenant(call)])

    async def organization_usage(self, call: Call) -> Reply:
        return await self._usage(call, place.tenants(call))

    async def _usage(self, call: Call, tenants: list[str]) -> Reply:
        for tenant in tenants:
            rights.require_all(call, tenant, rights.READ_STATS)
        points = await self.history(call).of_tenants(tenants, _usage_window(call))
        return self._reply([_usage_row(point) for point in points])

    def _reply(self, document: object) -> Reply:
        """What is asked for, and up to where it is from tables: the vendor's answer has no room for that."""
        border = self._history.border if self._history is not None else None
        return reply(document, headers=(JSON_TYPE, (HEADER, describe(border).encode())))


def _visible_queue(call: Call, tenant: str, name: str) -> Queue | None:
    try:
        queue = call.services.catalog.queue(tenant, name)
    except QueueNotFound:
        return None
    return queue if rights.may(call, queue, *rights.LOOK_AT_STATS) else None


async def _live(call: Call, queue: Queue) -> dict[str, Json]:
    counters = await call.services.broker.counters(queue)
    return {
        "destination": queue.name,
        "messages": counters.ready_count + counters.delayed_count,
        "inflightMessages": counters.leased_count,
    }


def _window(call: Call) -> Window:
    start, end = _dates(call)
    seconds = whole_or_none("period", required(call, "period")) or 0
    return Window(start=start, end=end, step_ms=check_range("period", seconds, 1, PERIOD_SECONDS) * SECOND)


def _usage_window(call: Call) -> Window:
    required(call, "period")
    period = choice(call, "period", tuple(PERIODS))
    start, end = _dates(call)
    return Window(start=start, end=end, step_ms=PERIODS[period])


def _dates(call: Call) -> tuple[int, int]:
    start = read_date("startDate", required(call, "startDate"))
    end = read_date("endDate", required(call, "endDate"))
    if end < start:
        raise Invalid("endDate must not be before startDate")
    return start, end


class Point(msgspec.Struct, gc=False):
    date: str
    value: int


def _series(points: list[QueuePoint] | list[ExchangePoint], names: dict[str, str]) -> dict[str, Json]:
    dates = [point_date(point.at) for point in points]
    return {
        theirs: [Point(date, getattr(point, ours)) for date, point in zip(dates, points, strict=True)]
        for theirs, ours in names.items()
    }


def _usage_row(point: UsagePoint) -> dict[str, Json]:
    return {
        "timestamp": usage_date(point.at),
        "apiRequestCount": point.operation_count,
        "messageReceiptCount": point.received_count,
        "billableUnitCount": point.unit_count,
        "messageByteCount": point.byte_count,
    }
