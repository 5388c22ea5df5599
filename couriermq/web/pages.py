"""/healthz, /readyz and /metrics."""

import asyncio

import msgspec

from couriermq import __version__
from couriermq.telemetry import metrics
from couriermq.telemetry.traffic import Traffic
from couriermq.web.call import JSON_TYPE, Call, Reply, Route
from couriermq.web.services import Services

SHARED_MS = 1_000
"""For so long the series of queues are given out as they were written."""


class Pages:
    """What an operator's tools ask of a running server."""

    def __init__(self, store: metrics.Measured, traffic: Traffic, *, metrics_public: bool) -> None:
        self._store = store
        self._traffic = traffic
        self._metrics_public = metrics_public
        self._writing = asyncio.Lock()
        self._written_at = -SHARED_MS
        self._queues = b""

    @property
    def routes(self) -> list[Route]:
        return [
            Route("GET", "/healthz", self.health, public=True),
            Route("GET", "/readyz", self.readiness, public=True),
            Route("GET", "/metrics", self.metrics, public=True),
        ]

    async def health(self, call: Call) -> Reply:
        """The process is alive and its event loop turns."""
        return Reply(200, msgspec.json.encode({"status": "ok", "version": __version__}))

    async def readiness(self, call: Call) -> Reply:
        """The store takes writes; if not, why not."""
        reason = self._store.unavailable_reason
        if reason is None:
            return Reply(200, b'{"status":"ready"}')
        body = msgspec.json.encode({"status": "unavailable", "reason": reason})
        return Reply(503, body, (JSON_TYPE, (b"retry-after", b"1")))

    async def metrics(self, call: Call) -> Reply:
        """Everybody sees whether the store works; figures are for root, because they count what all tenants do."""
        families = list(metrics.state_families(self._store))
        queues, full = b"", self._metrics_public or self._asked_by_root(call)
        if full:
            families += metrics.server_families(self._traffic, self._store)
            families.append(metrics.queue_count(call.services.catalog))
            queues = await self._queue_text(call.services)
        text = await asyncio.to_thread(metrics.render, families, process=full)
        return Reply(200, text + queues, [(b"content-type", metrics.CONTENT_TYPE)])

    async def _queue_text(self, services: Services) -> bytes:
        """The series of queues, unless there are more than an operator wants; several scrapers share one text."""
        async with self._writing:
            if len(services.catalog.all_queues()) > services.settings.metrics_per_queue:
                return b""
            now = services.clock.now()
            if not 0 <= now - self._written_at < SHARED_MS:
                found = await metrics.depths(services.catalog, services.broker)
                self._written_at, self._queues = now, await metrics.queue_text(found, services.clock)
            return self._queues

    def _asked_by_root(self, call: Call) -> bool:
        if call.header(b"authorization") is None:
            return False
        call.services.auth.bearer(call).require_root()
        return True
