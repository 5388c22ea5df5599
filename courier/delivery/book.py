"""The health of every listener: in memory as it is, on disk as it was a few seconds ago."""

import contextlib
import logging

import msgspec

from courier.catalog import Catalog
from courier.clock import Clock
from courier.core.errors import CourierError, NotFound
from courier.core.model import SECOND, Listener
from courier.delivery.alarms import Alarms
from courier.delivery.model import BreakerState, Health
from courier.delivery.tasks import Tasks

KIND = "delivery.health"
PRINCIPAL = "delivery"
SAVE_MS = 5 * SECOND
ROUND_COUNT = 100
"""How many are written at a time; the others wait for the next round."""

log = logging.getLogger(__name__)


class HealthBook:
    """Reads and writes Health by listener."""

    def __init__(self, catalog: Catalog, clock: Clock, alarms: Alarms, tasks: Tasks) -> None:
        self._catalog = catalog
        self._clock = clock
        self._alarms = alarms
        self._tasks = tasks
        self._known: dict[str, Health] = {}
        self._dirty: dict[str, Listener] = {}
        self._saving_soon = False

    def of(self, listener: Listener) -> Health:
        found = self._known.get(listener.id)
        if found is None:
            found = self._known[listener.id] = self._stored(listener)
        return found

    def _stored(self, listener: Listener) -> Health:
        try:
            document = self._catalog.record(KIND, listener.tenant, listener.id).document
            health = msgspec.convert(document, Health)
        except (NotFound, msgspec.ValidationError):
            return Health()
        return msgspec.structs.replace(health, breaker=BreakerState.CLOSED)  # a breaker does not outlive the process

    def put(self, listener: Listener, health: Health) -> None:
        self._known[listener.id] = health
        self._dirty[listener.id] = listener
        if not self._saving_soon:
            self._saving_soon = True
            self._alarms.set(self._clock.now() + SAVE_MS, lambda: self._tasks.start(self._save_round()))

    def forget(self, listener: Listener) -> None:
        """The listener is gone, and so is what is known of it."""
        self._known.pop(listener.id, None)
        self._dirty.pop(listener.id, None)
        self._tasks.start(self._delete(listener))

    async def _delete(self, listener: Listener) -> None:
        with contextlib.suppress(CourierError):
            await self._catalog.delete_record(KIND, listener.tenant, listener.id, principal=PRINCIPAL)

    async def _save_round(self) -> None:
        await self.save(ROUND_COUNT)
        self._saving_soon = bool(self._dirty)
        if self._dirty:
            self._alarms.set(self._clock.now() + SAVE_MS, lambda: self._tasks.start(self._save_round()))

    async def save(self, count: int | None = None) -> None:
        """Write what has changed, the longest waiting first."""
        for listener_id in list(self._dirty)[:count]:
            listener = self._dirty.pop(listener_id, None)
            health = self._known.get(listener_id)
            if listener is None or health is None:
                continue
            document = msgspec.to_builtins(health)
            try:
                await self._catalog.put_record(
                    KIND, listener.tenant, document, record_id=listener_id, principal=PRINCIPAL
                )
            except NotFound:
                continue
            except CourierError as error:
                self._dirty.setdefault(listener_id, listener)
                log.warning("the health of listeners could not be saved: %s", error)
                return
