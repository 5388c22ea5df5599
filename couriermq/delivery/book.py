"""The health of every listener: in memory as it is, on disk, and so for other nodes, as it was a few seconds ago."""

import contextlib
import logging
from collections.abc import Callable

import msgspec

from couriermq.catalog import Catalog
from couriermq.clock import Clock
from couriermq.core.errors import CourierError, NotFound
from couriermq.core.model import SECOND, Listener
from couriermq.delivery.alarms import Alarms
from couriermq.delivery.health import afresh
from couriermq.delivery.model import BreakerState, Health
from couriermq.delivery.tasks import Tasks

KIND = "delivery.health"
PRINCIPAL = "delivery"
SAVE_MS = 5 * SECOND
ROUND_COUNT = 100
"""How many are written at a time; the others wait for the next round."""

log = logging.getLogger(__name__)


class HealthBook:
    """Reads and writes Health by listener."""

    def __init__(
        self, catalog: Catalog, clock: Clock, alarms: Alarms, tasks: Tasks, *, is_ours: Callable[[Listener], bool]
    ) -> None:
        self._is_ours = is_ours
        self._catalog = catalog
        self._clock = clock
        self._alarms = alarms
        self._tasks = tasks
        self._known: dict[str, Health] = {}
        self._dirty: dict[str, Listener] = {}
        self._saving_soon = False

    def of(self, listener: Listener) -> Health:
        if not self._is_ours(listener):
            if listener.id not in self._dirty:
                self._known.pop(listener.id, None)  # whoever delivers to it knows better
            return self._stored(listener)
        found = self._known.get(listener.id)
        if found is None:  # a breaker does not outlive the process
            found = msgspec.structs.replace(self._stored(listener), breaker=BreakerState.CLOSED)
            if (found.last_failure_at or 0) < listener.changed_at:
                found = afresh(found)  # somebody may have set it going again while nobody delivered to it
            self._known[listener.id] = found
        return found

    def _stored(self, listener: Listener) -> Health:
        try:
            document = self._catalog.record(KIND, listener.tenant, listener.id).document
            return msgspec.convert(document, Health)
        except (NotFound, msgspec.ValidationError):
            return Health()

    def put(self, listener: Listener, health: Health) -> None:
        self._known[listener.id] = health
        self._dirty[listener.id] = listener
        if not self._saving_soon:
            self._saving_soon = True
            self._alarms.set(self._clock.now() + SAVE_MS, lambda: self._tasks.start(self._save_round()))

    def give_up(self) -> None:
        """Others may deliver to some of these listeners now: let them know what is known, and go by what they say."""
        if self._dirty:
            self._tasks.start(self.save())
        for listener_id in [each for each in self._known if each not in self._dirty]:
            del self._known[listener_id]

    def forget(self, listener: Listener) -> None:
        """The listener is gone, and so is what is known of it."""
        self._known.pop(listener.id, None)
        self._dirty.pop(listener.id, None)
        self._tasks.start(self._delete(listener))

    async def _delete(self, listener: Listener) -> None:
        with contextlib.suppress(CourierError):
            await self._catalog.delete_record(KIND, listener.tenant, listener.id, principal=PRINCIPAL)

    async def _save_round(self) -> None:
        try:
            await self.save(ROUND_COUNT)
        finally:
            self._saving_soon = bool(self._dirty)
            if self._dirty:
                self._alarms.set(self._clock.now() + SAVE_MS, lambda: self._tasks.start(self._save_round()))

    async def save(self, count: int | None = None) -> None:
        """Write what has changed, the longest waiting first, in one change: every node hears of each change."""
        chosen = {listener_id: self._dirty.pop(listener_id) for listener_id in list(self._dirty)[:count]}
        documents = {
            (listener.tenant, listener.id): msgspec.to_builtins(self._known[listener.id])
            for listener in chosen.values()
            if listener.id in self._known
        }
        try:
            await self._catalog.put_records(KIND, documents, principal=PRINCIPAL)
        except CourierError as error:
            self._dirty = chosen | self._dirty
            log.warning("the health of listeners could not be saved: %s", error)
