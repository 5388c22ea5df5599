"""/healthz, /readyz and /metrics."""

import asyncio

import msgspec

from couriermq import __version__
from couriermq.telemetry import metrics
from couriermq.telemetry.traffic import Traffic
from couriermq.web.call import JSON_TYPE, Call, Reply, Route


class Pages:
    """What an operator's tools ask of a running server."""

    def __init__(self, store: metrics.Measured, traffic: Traffic, *, metrics_public: bool) -> None:
        self._store = store
        self._traffic = traffic
        self._metrics_public = metrics_public

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
        """Figures of the server for everybody; those of queues only for root, for they name tenants and queues."""
        families = list(metrics.server_families(self._traffic, self._store))
        if self._metrics_public or self._asked_by_root(call):
            services = call.services
            found = await metrics.depths(services.catalog, services.broker)
            families += metrics.queue_families(found, services.clock)
        text = await asyncio.to_thread(metrics.render, families)
        return Reply(200, text, [(b"content-type", metrics.CONTENT_TYPE)])

    def _asked_by_root(self, call: Call) -> bool:
        if call.header(b"authorization") is None:
            return False
        call.services.auth.bearer(call).require_root()
        return True
