"""One live stream for a page: figures as they are, and events as they happen.

Figures are told by level: a page that reads slowly misses steps, never where they led. Events have positions, with
which a page goes on after it was cut off; of more than a page can show it is told how many were left out.
"""

import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec
from msgspec import UNSET

from couriermq.core.errors import CourierError, Forbidden, TenantNotFound, Throttled, Unauthenticated
from couriermq.core.model import Action, Credential, Tenant
from couriermq.dialects.native.access import part_of_tenant
from couriermq.dialects.native.diagnosis import diagnosis_of_tenant
from couriermq.dialects.native.operations import TENANT, Operation, encode
from couriermq.dialects.native.overview import overview_of, seen_queues
from couriermq.dialects.native.tailing import Tail
from couriermq.dialects.native.wire import live as wire
from couriermq.dialects.native.wire.diagnosis import Diagnosis
from couriermq.dialects.native.wire.overview import Overview, OverviewTotals, QueueRow
from couriermq.dialects.native.wire.reading import read_query
from couriermq.monitor.rates import SHOWN, backlog
from couriermq.web.call import NO_STORE, Call, Header, Reply

HEARTBEAT_MS = 15_000
RECHECK_MS = 60_000
"""How often a stream looks whether its session or token is still good; what changes a credential is seen at once."""
ATTENTION_MS = 10_000
EVENT_STREAM: Header = (b"content-type", b"text/event-stream; charset=utf-8")
UNBUFFERED: Header = (b"x-accel-buffering", b"no")

log = logging.getLogger("couriermq.live")


async def read_live(call: Call) -> Reply:
    tenant = part_of_tenant(call, Action.STATS)
    query = read_query(call, wire.LiveQuery)
    stream = Live(call, tenant, query)
    await stream.begin()
    return Reply(200, await _started(stream.frames()), (EVENT_STREAM, NO_STORE, UNBUFFERED))


async def _started(frames: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The same frames, with the first made already: a stream without a place is refused before the answer begins."""
    first = await anext(frames)

    async def every() -> AsyncGenerator[bytes, None]:
        async with contextlib.aclosing(frames):
            yield first
            async for frame in frames:
                yield frame

    return every()


class Live:
    """What one page has been told so far."""

    def __init__(self, call: Call, tenant: Tenant, query: wire.LiveQuery) -> None:
        self._call = call
        self._tenant = tenant
        self._query = query
        self._topics = query.chosen
        self._services = call.services
        self._streams = call.services.monitor.streams
        self._rows: dict[str, bytes] | None = None
        self._totals = b""
        self._second = 0
        self._attention: object = None
        self._tail = Tail(call, tenant, query) if "events" in self._topics else None
        self._credential = self._credential_now()
        now = call.services.clock.now()
        self._due = {"heartbeat": now + HEARTBEAT_MS, "credential": now + RECHECK_MS, "attention": now}

    async def begin(self) -> None:
        """Find where to read on; raises where the position is not one of this store."""
        if self._tail is not None:
            await self._tail.begin()

    async def frames(self) -> AsyncGenerator[bytes, None]:
        principal = self._call.principal
        with self._streams.place(None if principal.is_root else principal.id):
            yield wire.RETRY
            while not self._streams.is_closed:
                try:
                    self._check_credential()
                    news = [frame async for frame in self._look()]
                except (Unauthenticated, Forbidden, Throttled):  # as a new request would be refused
                    yield wire.frame("gone", wire.Gone("credential"))
                    return
                except CourierError as error:
                    log.warning("a live stream could not be told", extra={"reason": str(error)})
                    news = []
                if news:
                    yield b"".join(news)
                elif self._is_due("heartbeat", HEARTBEAT_MS):
                    yield wire.HEARTBEAT
                await self._streams.next_beat()
            yield wire.frame("gone", wire.Gone("stopping"))

    def _check_credential(self) -> None:
        """The caller again, as of now: its scopes may have changed, and its session lives on while it watches."""
        credential = self._credential_now()
        if credential is not self._credential or self._is_due("credential", RECHECK_MS):
            self._credential = credential
            call = self._call
            browser = self._services.sessions.admit(call) if call.header(b"authorization") is None else None
            call.principal = browser or self._services.auth.bearer(call)
            call.principal.require_dialect("native")
            part_of_tenant(call, Action.STATS)

    def _credential_now(self) -> Credential | None:
        return self._services.catalog.credential_of_id(self._call.principal.id)

    def _is_due(self, what: str, every_ms: int) -> bool:
        now = self._services.clock.now()
        if now < self._due[what]:
            return False
        self._due[what] = now + every_ms
        return True

    async def _look(self) -> AsyncIterator[bytes]:
        if self._tail is not None:
            async for frame in self._tail.look():
                yield frame
        if "attention" in self._topics and self._is_due("attention", ATTENTION_MS):
            found = await self._diagnosis()
            if found.findings != self._attention:
                self._attention = found.findings
                yield wire.frame("attention", found)
        second = self._services.clock.now() // 1_000
        if second != self._second:
            self._second = second
            async for frame in self._figures():
                yield frame

    async def _figures(self) -> AsyncIterator[bytes]:
        news = wire.LiveRates(self._services.clock.now())
        if "overview" in self._topics:
            page = await self._overview()
            rows = {row.id: encode(_without_spark(row)) for row in page.queues}
            if self._rows is None or list(rows) != list(self._rows):
                self._rows, self._totals = rows, encode(_totals(page))
                yield wire.frame("snapshot", page)
                return
            changed = [_without_spark(row) for row in page.queues if rows[row.id] != self._rows[row.id]]
            totals = encode(_totals(page))
            if changed or totals != self._totals:
                news.queues, news.totals = changed, _totals(page)
            self._rows, self._totals = rows, totals
        if "rates" in self._topics:
            news.series = await self._series()
        if news.queues is not UNSET or news.series is not UNSET:
            yield wire.frame("rates", news)

    async def _diagnosis(self) -> Diagnosis:
        """What the caller may know of its queues; found once for all who may know the same."""
        key = ("diagnosis", self._tenant.id, self._viewer(), self._call.numbers.is_plain)
        found: Diagnosis = await self._streams.shared(
            key, lambda: diagnosis_of_tenant(self._call, self._tenant), every_ms=ATTENTION_MS
        )
        return found

    def _viewer(self) -> str:
        """The same for all who may see the figures of every queue."""
        principal = self._call.principal
        return "" if principal.may_all(Action.STATS) else principal.id

    async def _overview(self) -> Overview:
        """The page that the caller looks at; the same for all who look at the same with the same rights."""
        query = self._query
        key = (
            self._tenant.id,
            self._viewer(),
            query.find,
            query.queues,
            query.sort,
            query.order,
            query.skip,
            query.limit,
        )
        page: Overview = await self._streams.shared(
            (*key, query.spark), lambda: overview_of(self._call, self._tenant, query)
        )
        return page

    async def _series(self) -> dict[str, wire.Tick]:
        """The last whole second of each queue that was named."""
        wanted, stop = set(self._query.queues), self._second
        found = {}
        for queue in seen_queues(self._call, self._tenant):
            if queue.name in wanted or queue.id in wanted:
                row = await self._services.monitor.overview.row(queue)
                levels = backlog(row.rates, row.counters.total_count, stop - 1, stop + 1, by_minutes=False)
                counts = {name: row.rates.seconds(name, stop - 1, stop)[0] for name in SHOWN}
                found[queue.name] = wire.Tick(at=(stop - 1) * 1_000, **counts, backlog=levels[0])
        return found


def _without_spark(row: QueueRow) -> QueueRow:
    return msgspec.structs.replace(row, spark=UNSET)


def _totals(page: Overview) -> OverviewTotals:
    return msgspec.structs.replace(page.totals, spark=UNSET)


OPERATIONS = (
    Operation(
        method="GET",
        path=TENANT + "/live",
        handler=read_live,
        tag="Stats",
        summary="Watch queues and events live",
        description="Server-sent events (`text/event-stream`) of the `topics` that are named, with commas between them."
        " `overview`: a `snapshot`, which is what the overview of the same query gives, whenever the list of queues"
        " changes, and `rates` with the rows that have changed, once a second. `rates`: the last whole second of each"
        " `queue` that is named. `events`: an `event` for each event of the journal from `from` on (default: from now"
        " on), at most `max_per_second`; `skipped` says how many were left out and where. Their `id` goes into"
        " `Last-Event-ID` or `from` to go on. `attention`: the diagnosis of the tenant when it changes. `gone` is the"
        " last one. Bodies need `browse` and `bodies=true`. A node serves as many streams as `console_streams` says, a"
        " quarter of them to one credential.",
        needs="stats",
        query=wire.LiveQuery,
        headers={"Last-Event-ID": "The id of the last event that the caller has got."},
        gives={200: wire.LiveRates},
        streams=("text/event-stream",),
        fails=(TenantNotFound,),
    ),
)
