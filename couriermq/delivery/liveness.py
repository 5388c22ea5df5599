"""Looks after receivers that have nothing to do: a GET on the liveness URL of every listener that has one."""

from functools import partial

from couriermq.clock import Clock
from couriermq.core.errors import Invalid
from couriermq.core.model import SECOND, Listener, ListenerState
from couriermq.delivery import health as rules
from couriermq.delivery.alarms import Alarms
from couriermq.delivery.book import HealthBook
from couriermq.delivery.client import Client
from couriermq.delivery.dispatcher import Dispatcher
from couriermq.delivery.fairness import FairWork
from couriermq.delivery.guard import Guard
from couriermq.delivery.headers import USER_AGENT
from couriermq.delivery.model import Answer, Liveness
from couriermq.delivery.tasks import Tasks

TIMEOUT_MS = 5 * SECOND
AT_ONCE, EACH_AT_ONCE, BURST = 50, 10, 16
"""How many checks are under way, of one tenant among them, and how many begin in one turn of the event loop."""


class LivenessChecks:
    """Each listener is checked again a while after its last check; a new one soon."""

    def __init__(
        self,
        clock: Clock,
        client: Client,
        guard: Guard,
        *,
        alarms: Alarms,
        tasks: Tasks,
        book: HealthBook,
        dispatcher: Dispatcher,
        interval_ms: int,
    ) -> None:
        self._clock = clock
        self._client = client
        self._guard = guard
        self._alarms = alarms
        self._book = book
        self._dispatcher = dispatcher
        self._interval_ms = interval_ms
        self._listeners: dict[str, Listener] = {}
        self._work = FairWork(tasks, total=AT_ONCE, each=EACH_AT_ONCE, burst=BURST)

    def known(self, listener: Listener) -> None:
        """A listener of an earlier day: its turn comes some time within the interval."""
        self._begin(listener, within_ms=self._interval_ms)

    def changed(self, listener: Listener) -> None:
        """A listener is new, or other than it was."""
        self._begin(listener, within_ms=0)

    def gone(self, listener: Listener) -> None:
        self._listeners.pop(listener.id, None)

    def stop(self) -> None:
        """Begin no further check."""
        self._listeners.clear()

    def _begin(self, listener: Listener, *, within_ms: int) -> None:
        before = self._listeners.get(listener.id)
        if listener.liveness_url is None:
            self.gone(listener)
            return
        self._listeners[listener.id] = listener
        if before is None or before.liveness_url != listener.liveness_url:
            spread = int.from_bytes(self._clock.random_bytes(2), "big") / 2**16
            self._set(listener.id, listener.liveness_url, round(within_ms * spread))

    def _set(self, listener_id: str, url: str, wait_ms: int) -> None:
        self._alarms.set(self._clock.now() + wait_ms, partial(self._due, listener_id, url))

    def _due(self, listener_id: str, url: str) -> None:
        listener = self._listeners.get(listener_id)
        if listener is None or listener.liveness_url != url:
            return  # it is gone, or checked at another URL since
        if listener.state is ListenerState.PAUSED or not self._dispatcher.is_ours(listener):
            self._set(listener_id, url, self._interval_ms)
        else:
            self._work.add(listener.tenant, partial(self._check, listener, url))

    async def _check(self, listener: Listener, url: str) -> None:
        present = self._listeners.get(listener.id)
        if present is None or present.liveness_url != url:
            return  # it has gone, or is checked at another URL, since its turn was due
        answer = await self._ask(url, listener.tenant)
        if listener.id not in self._listeners:
            return
        health = rules.after_check(self._book.of(listener), answer, now=self._clock.now())
        self._book.put(listener, health)
        alive, down = health.liveness is Liveness.STABLE, health.liveness is Liveness.DOWN
        self._dispatcher.checked(listener, alive=alive, down=down)
        self._set(listener.id, url, self._interval_ms)

    async def _ask(self, url: str, tenant: str) -> Answer:
        try:
            target = self._guard.check_url(url, tenant=tenant)
        except Invalid as error:
            return Answer(error=str(error))
        head = f"GET {target.path} HTTP/1.1\r\nHost: {target.authority}\r\nUser-Agent: {USER_AGENT}\r\n\r\n"
        return await self._client.exchange(target, head.encode("ascii"), timeout_ms=TIMEOUT_MS)
