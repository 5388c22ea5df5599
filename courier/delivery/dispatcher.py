"""Brings messages from outboxes to receivers.

The store says which outbox has something ready; only then does a listener cost anything. Each listener has a lane of
its own with its own limits, so that one that is slow or dead holds up nobody else. A delivery is a lease: an ack when
the receiver has taken the message, a release when it has not.
"""

import asyncio
import logging
from functools import partial
from time import perf_counter

from msgspec.structs import replace

from courier.broker import Broker
from courier.catalog import Catalog
from courier.clock import Clock
from courier.core.errors import CourierError, Invalid, NotFound, QueueNotFound
from courier.core.model import SECOND, Ack, Extend, Lease, Listener, ListenerState, Release
from courier.delivery import health as rules
from courier.delivery.alarms import Alarms
from courier.delivery.book import PRINCIPAL, HealthBook
from courier.delivery.envelope import Envelope, Postman, envelope
from courier.delivery.guard import Guard
from courier.delivery.lane import Lane
from courier.delivery.log import note_of
from courier.delivery.model import Answer, Delivered, DeliveryAttempt, Gone, Outcome, Retry, Verdict
from courier.delivery.schedule import verdict
from courier.delivery.settling import Settler
from courier.delivery.tasks import Tasks

STORE_RETRY_MS = SECOND
LEASE_SPARE_MS = SECOND

log = logging.getLogger(__name__)

STOPPED = Answer(error="Courier was stopped before the answer came")


class Dispatcher:
    """`ready` is called by the store for every queue; the rest follows from it."""

    def __init__(
        self,
        broker: Broker,
        catalog: Catalog,
        clock: Clock,
        *,
        guard: Guard,
        postman: Postman,
        alarms: Alarms,
        tasks: Tasks,
        requests: Tasks,
        book: HealthBook,
        settler: Settler,
        disable_ms: int,
        most_active: int,
    ) -> None:
        self._broker = broker
        self._catalog = catalog
        self._clock = clock
        self._guard = guard
        self._postman = postman
        self._alarms = alarms
        self._tasks = tasks
        self._requests = requests
        self._book = book
        self._settler = settler
        self._disable_ms = disable_ms
        self._most_active = most_active
        self._listeners: dict[int, Listener] = {}  # by the key of their outbox
        self._keys: dict[str, int] = {}
        self._lanes: dict[int, Lane] = {}
        self._active = 0
        self._starved: dict[int, Lane] = {}
        self._going = False

    # -- what others tell -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Look into every outbox once; from then on the store tells."""
        self._going = True
        for key in list(self._listeners):
            self.ready(key, 1)

    def stop(self) -> None:
        """Take up nothing new."""
        self._going = False

    def ready(self, queue_key: int, count: int) -> None:
        listener = self._listeners.get(queue_key)
        if listener is None or not self._going:
            return
        lane = self._lanes.get(queue_key)
        if lane is None:
            lane = self._lanes[queue_key] = Lane(listener, self._catalog.outbox(listener))
        lane.hungry = True
        self._pump(lane)

    def changed(self, listener: Listener) -> None:
        """A listener is new, or other than it was."""
        outbox = self._catalog.queue_of_id(listener.outbox_id)
        if outbox is None:  # a delete that failed brings it back in a moment, after its listener
            asyncio.get_running_loop().call_soon(self.changed, listener)
            return
        self._keys[listener.id] = outbox.key
        self._listeners[outbox.key] = listener
        lane = self._lanes.get(outbox.key)
        if lane is not None:
            lane.renew(listener, outbox)
        self.ready(outbox.key, 1)

    def gone(self, listener: Listener) -> None:
        key = self._keys.pop(listener.id, None)
        if key is not None:
            self._listeners.pop(key, None)
            self._lanes.pop(key, None)

    def lane_of(self, listener: Listener) -> Lane | None:
        return self._lanes.get(self._keys.get(listener.id, -1))

    def checked(self, listener: Listener, *, alive: bool, down: bool) -> None:
        """A liveness check has come back: a receiver that is back is tried at once, one that is down is spared."""
        lane, now = self.lane_of(listener), self._clock.now()
        if lane is None:
            return
        if alive:
            lane.breaker = lane.breaker.probing(now=now)
            self._pump(lane)
        elif down:
            lane.breaker = lane.breaker.tripped(now=now)

    # -- from the outbox --------------------------------------------------------------------------------------

    def _pump(self, lane: Lane) -> None:
        """Lease as much as the lane has room for."""
        if not lane.hungry or lane.fetching or not self._may_go(lane):
            return
        room = lane.room(now=self._clock.now())
        if room.count:
            lane.fetching = True
            self._tasks.start(self._fetch(lane, room.count))
        elif room.again_at is not None:
            self._wake(lane, room.again_at)

    def _wake(self, lane: Lane, at: int) -> None:
        if lane.alarm_at is None or at < lane.alarm_at:
            lane.alarm_at = at
            self._alarms.set(at, partial(self._woken, lane, at))

    def _woken(self, lane: Lane, at: int) -> None:
        if lane.alarm_at == at:
            lane.alarm_at = None
        self._pump(lane)

    async def _fetch(self, lane: Lane, count: int) -> None:
        lane.hungry = False  # what becomes ready while we look says so
        started = perf_counter()
        try:
            leases = await self._broker.receive(lane.outbox, limit=count, principal=PRINCIPAL)
        except QueueNotFound:
            return
        except CourierError:
            lane.hungry = True
            self._wake(lane, self._clock.now() + STORE_RETRY_MS)
            return
        finally:
            lane.fetching = False
        lane.learn_fetch((perf_counter() - started) * 1_000)
        lane.hungry = lane.hungry or len(leases) == count
        if rate := lane.listener.settings.requests_per_second:
            lane.pace.spend(len(leases), rate, now=self._clock.now())
        lane.waiting.extend(leases)
        lane.used = lane.used or bool(leases)
        if not lane.used and not lane.hungry and self._going:
            self._lanes.pop(lane.outbox.key, None)  # it was only a look: an idle listener costs nothing
            return
        self._dispatch(lane)
        self._pump(lane)

    # -- to the receiver --------------------------------------------------------------------------------------

    def _may_go(self, lane: Lane) -> bool:
        """Whether anything may be delivered to the listener now."""
        queue = self._catalog.queue_of_id(lane.listener.queue_id)
        paused = queue is not None and queue.settings.paused
        return self._going and lane.listener.state is ListenerState.ACTIVE and not paused

    def _dispatch(self, lane: Lane) -> None:
        """Send off what is leased, or give it back where that may not be any more."""
        width = lane.width(now=self._clock.now()) if self._may_go(lane) else 0
        if not width and lane.waiting:
            untried = [Release(lease.receipt, 0, untried=True) for lease in lane.waiting]
            lane.waiting.clear()
            self._tasks.start(self._give_back(lane, untried))
        while lane.waiting and lane.active < width:
            if self._active >= self._most_active:
                self._starved[lane.outbox.key] = lane
                return
            lane.active += 1
            self._active += 1
            self._requests.start(self._deliver(lane, lane.waiting.popleft()))

    async def _give_back(self, lane: Lane, untried: list[Release]) -> None:
        try:
            await self._broker.settle(lane.outbox, untried, principal=PRINCIPAL)
        except CourierError as error:  # then their leases end by themselves
            log.warning("%d messages for listener %s were not given back: %s", len(untried), lane.listener.id, error)

    async def _deliver(self, lane: Lane, lease: Lease) -> None:
        try:
            answer = await self._attempt(lane, lease)
        except asyncio.CancelledError:
            answer = STOPPED
        lane.active -= 1
        self._active -= 1
        if answer is not None:
            self._judge(lane, lease, answer)
        self._dispatch(lane)
        self._pump(lane)
        if self._starved:
            self._dispatch(self._starved.pop(next(iter(self._starved))))

    async def _attempt(self, lane: Lane, lease: Lease) -> Answer | None:
        """One request, or None when the lease was lost before it could be made."""
        listener, now = lane.listener, self._clock.now()
        if lease.expires_at - now < listener.settings.timeout_ms + LEASE_SPARE_MS:
            order = Extend(lease.receipt, lane.outbox.settings.lease_ms)
            try:
                (extended,) = await self._broker.settle(lane.outbox, [order], principal=PRINCIPAL)
            except CourierError:
                return None
            if isinstance(extended, CourierError):
                return None
        cover = self._cover(lane)
        if isinstance(cover, str):
            return Answer(error=cover)
        return await self._postman.deliver(
            listener, cover, lease.message, queue_name=self._queue_name(listener), now=self._clock.now()
        )

    def _cover(self, lane: Lane) -> Envelope | str:
        if lane.cover is None:
            try:
                lane.cover = envelope(lane.listener, self._guard)
            except Invalid as error:
                lane.cover = str(error)
        return lane.cover

    def _queue_name(self, listener: Listener) -> str:
        queue = self._catalog.queue_of_id(listener.queue_id)
        return queue.name if queue else listener.queue_id

    # -- what follows -----------------------------------------------------------------------------------------

    def _judge(self, lane: Lane, lease: Lease, answer: Answer) -> None:
        now, settings, message = self._clock.now(), lane.listener.settings, lease.message
        decided = verdict(answer, settings, attempt=message.attempts, now=now, dice=self._dice(answer))
        self._remember(lane, answer, decided, now)
        attempt = DeliveryAttempt(
            at=now,
            seq=message.seq,
            message_id=message.id,
            attempt=message.attempts,
            verdict=_outcome(decided, last=message.attempts > len(settings.schedule_ms)),
            status=answer.status,
            latency_ms=round(answer.latency_ms),
            error=answer.error,
            excerpt=answer.excerpt or None,
            delay_ms=None if isinstance(decided, Delivered) else decided.delay_ms,
        )
        note = note_of(attempt)
        if isinstance(decided, Delivered):
            self._settler.settle(lane, Ack(lease.receipt, note), attempt, then=self._pump)
        else:
            self._settler.settle(lane, Release(lease.receipt, decided.delay_ms, note), attempt, then=self._pump)

    def _dice(self, answer: Answer) -> float:
        if answer.status is not None and 200 <= answer.status <= 299:
            return 0.5  # nothing to be spread
        return int.from_bytes(self._clock.random_bytes(4), "big") / 2**32

    def _remember(self, lane: Lane, answer: Answer, decided: Verdict, now: int) -> None:
        """What the attempt says of the listener as a whole."""
        lane.learn(answer)
        delivered = isinstance(decided, Delivered)
        lane.breaker = lane.breaker.after_success() if delivered else lane.breaker.after_failure(now=now)
        health = rules.after_delivery(self._book.of(lane.listener), answer, delivered=delivered, now=now)
        self._book.put(lane.listener, health)
        if isinstance(decided, Retry) and decided.hold_ms:
            lane.held_until = max(lane.held_until, now + decided.hold_ms)
        reason = decided.reason if isinstance(decided, Gone) else None
        if not delivered and (reason or (reason := rules.hopeless(health, disable_ms=self._disable_ms, now=now))):
            self._disable(lane, reason)

    def _disable(self, lane: Lane, reason: str) -> None:
        """At once in memory, so that nothing more goes out, then for good."""
        listener = lane.listener
        if listener.state is ListenerState.ACTIVE:
            lane.renew(replace(listener, state=ListenerState.DISABLED, reason=reason), lane.outbox)
            log.warning("listener %s is disabled: %s", listener.id, reason)
            self._tasks.start(self._store_disabled(listener, reason))

    async def _store_disabled(self, listener: Listener, reason: str) -> None:
        while True:
            try:
                await self._catalog.change_listener(
                    listener, state=ListenerState.DISABLED, reason=reason, principal=PRINCIPAL
                )
                return
            except NotFound:
                return
            except CourierError as error:
                log.warning("listener %s could not be disabled yet: %s", listener.id, error)
                await asyncio.sleep(STORE_RETRY_MS / SECOND)


def _outcome(decided: Verdict, *, last: bool) -> Outcome:
    if isinstance(decided, Delivered):
        return Outcome.DELIVERED
    if last:
        return Outcome.DEAD
    return Outcome.GONE if isinstance(decided, Gone) else Outcome.RETRY
