"""Brings messages from outboxes to receivers.

The store says which outbox has something ready; only then does a listener cost anything. Each listener has a lane of
its own with its own limits, so that one that is slow or dead holds up nobody else. Tenants have their turns with the
store and with requests one after the other. A delivery is a lease: an ack when the receiver has taken the message, a
release when it has not.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from time import perf_counter

from couriermq.broker import Broker
from couriermq.catalog import Catalog
from couriermq.clock import Clock
from couriermq.core.duties import DELIVERY, delivery_to
from couriermq.core.errors import CourierError, Invalid, QueueNotFound
from couriermq.core.model import SECOND, Counters, Lease, Listener, ListenerState, Release
from couriermq.delivery.alarms import Alarms
from couriermq.delivery.batch_lane import BatchLane
from couriermq.delivery.batches import Batches
from couriermq.delivery.book import PRINCIPAL
from couriermq.delivery.bridge import BridgeAnswer, write_batch
from couriermq.delivery.client import Withdrawn
from couriermq.delivery.consumers import WorkerConsumer
from couriermq.delivery.envelope import Envelope, Postman, envelope
from couriermq.delivery.fairness import FairWork
from couriermq.delivery.guard import Guard
from couriermq.delivery.judging import Judge
from couriermq.delivery.lane import Lane, is_fresh_start
from couriermq.delivery.model import Answer
from couriermq.delivery.renewing import Renewals
from couriermq.delivery.tasks import Tasks

STORE_RETRY_MS = SECOND
JUDGE_RETRY_MS = 5 * SECOND
"""When a message is delivered again whose answer could not be judged because of an error of our own."""
FETCH_COUNT = 100
"""How many messages are leased at once, so that the loop and the store soon get to others."""

log = logging.getLogger(__name__)

STOPPED = Answer(error="Courier was stopped before the answer came")
FAILED = Answer(error="an error of our own; the server's log has the details")


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
        store: FairWork,
        requests: FairWork,
        judge: Judge,
        batches: Batches,
        renewals: Renewals,
        holds: Callable[[str], bool],
    ) -> None:
        self._broker = broker
        self._catalog = catalog
        self._clock = clock
        self._guard = guard
        self._postman = postman
        self._alarms = alarms
        self._tasks = tasks
        self._store = store
        self._requests = requests
        self._judge = judge
        self._batches = batches
        self._renewals = renewals
        self._holds = holds
        self._held: set[str] = set()
        self._listeners: dict[int, Listener] = {}  # by the key of their outbox
        self._keys: dict[str, int] = {}
        self._lanes: dict[int, Lane] = {}
        self._going = False

    # -- what others tell -------------------------------------------------------------------------------------

    def start(self) -> list[Listener]:
        """Look into every outbox once and return the listeners that are ours; from then on the store tells."""
        self._going = True
        self.duties_changed()
        return [listener for listener in self._listeners.values() if self.is_ours(listener)]

    def stop(self) -> None:
        """Take up nothing new."""
        self._going = False

    def duties_changed(self) -> list[Listener]:
        """Give back what is another node's now; look into every outbox that is newly ours, and return the listeners."""
        held = {duty for duty in DELIVERY if self._holds(duty)}
        gained, self._held = held - self._held, held
        for lane in list(self._lanes.values()):
            self._dispatch(lane)
        taken_over = {key: one for key, one in self._listeners.items() if delivery_to(one.id) in gained}
        for key in taken_over:
            self.ready(key, 1)
        return list(taken_over.values())

    def is_ours(self, listener: Listener) -> bool:
        """Whether it is this node that delivers to the listener."""
        return self._holds(delivery_to(listener.id))

    def ready(self, queue_key: int, count: int) -> None:
        listener = self._listeners.get(queue_key)
        if listener is None or not self._going or not self.is_ours(listener):
            return
        lane = self._lanes.get(queue_key)
        if lane is None:
            lane = self._lanes[queue_key] = self._new_lane(listener)
        lane.hungry = True
        self._pump(lane)

    def _new_lane(self, listener: Listener) -> Lane:
        outbox = self._catalog.outbox(listener)
        return (
            BatchLane(listener, outbox, self._batches.meter)
            if isinstance(listener, WorkerConsumer)
            else Lane(listener, outbox)
        )

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

    def is_fresh_start(self, listener: Listener) -> bool:
        """Whether this version of a listener of ours may be delivered to where the one before was not."""
        known = self._listeners.get(self._keys.get(listener.id, -1))
        return known is not None and self.is_ours(listener) and is_fresh_start(known, listener)

    def start_afresh(self, listener: Listener) -> None:
        """Forget how earlier requests to a listener went, and deliver what is ready."""
        if (lane := self.lane_of(listener)) is not None:
            lane.start_afresh()
            self._pump(lane)

    def gone(self, listener: Listener) -> None:
        """Deliver nothing more to a listener; what was leased ahead is given back."""
        key = self._keys.pop(listener.id, None)
        if key is None:
            return
        self._listeners.pop(key, None)
        if (lane := self._lanes.pop(key, None)) is not None:
            lane.retire()  # requests, alarms and the settler still refer to it
            self._dispatch(lane)

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
            self._store.add(lane.listener.tenant, partial(self._fetch, lane))
        elif room.again_at is not None:
            self._wake(lane, room.again_at)

    def _wake(self, lane: Lane, at: int) -> None:
        if lane.alarm_at is None or at < lane.alarm_at:
            lane.alarm_at = at
            self._alarms.set(at, partial(self._woken, lane, at))

    def _woken(self, lane: Lane, at: int) -> None:
        if lane.alarm_at == at:
            lane.alarm_at = None
        self._dispatch(lane)
        self._pump(lane)

    async def _fetch(self, lane: Lane) -> None:
        count = min(lane.room(now=self._clock.now()).count, FETCH_COUNT)
        if not count or not self._may_go(lane):  # the lane had to wait for its turn
            lane.fetching = False
            self._pump(lane)
            return
        lane.hungry = False  # what becomes ready while we look says so
        started = perf_counter()
        try:
            leases = await self._broker.receive(lane.outbox, limit=count, lease_ms=lane.lease_ms, principal=PRINCIPAL)
        except QueueNotFound:
            return
        except Exception as error:
            if not isinstance(error, CourierError):
                log.exception("messages for listener %s could not be leased", lane.listener.id)
            lane.hungry = True
            self._wake(lane, self._clock.now() + STORE_RETRY_MS)
            return
        finally:
            lane.fetching = False
        lane.learn_fetch((perf_counter() - started) * 1_000)
        lane.hungry = lane.hungry or len(leases) == count
        if rate := lane.listener.settings.requests_per_second:
            lane.pace.spend(len(leases), rate, now=self._clock.now())
        lane.take(leases, now=self._clock.now())
        self._renewals.hold(lane, leases)
        lane.used = lane.used or bool(leases)
        if not lane.used and not lane.hungry and self._going:
            if self._lanes.get(lane.outbox.key) is lane:
                del self._lanes[lane.outbox.key]  # it was only a look: an idle listener costs nothing
            return
        self._dispatch(lane)
        self._pump(lane)

    # -- to the receiver --------------------------------------------------------------------------------------

    def _may_go(self, lane: Lane) -> bool:
        """Whether anything may be delivered to the listener now."""
        queue = self._catalog.queue_of_id(lane.listener.queue_id)
        paused = queue is not None and queue.settings.paused
        ready = self._going and lane.listener.state is ListenerState.ACTIVE and not paused
        return ready and self.is_ours(lane.listener)

    def _dispatch(self, lane: Lane) -> None:
        """Send off what is leased, or give it back where that may not be any more."""
        width, now = self._width(lane), self._clock.now()
        if not width and lane.waiting:
            self._tasks.start(self._give_back(lane, lane.drain()))
        while lane.active < width and (parcel := lane.next_parcel(now=now)):
            lane.begin(parcel, now=now)
            self._requests.add(lane.listener.tenant, partial(self._deliver, lane, parcel))
        if lane.active < width and (at := lane.next_parcel_at()) is not None:
            self._wake(lane, at)

    def _width(self, lane: Lane) -> int:
        return lane.width(now=self._clock.now()) if self._may_go(lane) else 0

    async def _give_back(self, lane: Lane, leases: list[Lease]) -> None:
        """As if they had not been leased."""
        await self._release(lane, [Release(lease.receipt, 0, untried=True) for lease in leases])

    async def _release(self, lane: Lane, orders: list[Release]) -> None:
        for order in orders:
            lane.leases.pop(order.receipt, None)
        try:
            await self._broker.settle(lane.outbox, orders, principal=PRINCIPAL)
        except QueueNotFound:
            return  # the listener was deleted meanwhile
        except CourierError as error:  # then their leases end by themselves
            log.warning("%d messages for listener %s were not given back: %s", len(orders), lane.listener.id, error)

    async def _deliver(self, lane: Lane, parcel: list[Lease]) -> None:
        if not self._width(lane):  # paused, stopped or tripped while it waited for its turn
            lane.end(parcel, now=self._clock.now())
            await self._give_back(lane, parcel)
            return
        called = lane.listener
        try:
            answer = await self._attempt(lane, parcel)
        except asyncio.CancelledError:
            answer = STOPPED
        except Exception:
            log.exception("a delivery to listener %s could not be made", lane.listener.id)
            answer = FAILED
        lane.end(parcel, now=self._clock.now())
        try:
            self._judge_answer(lane, called, parcel, answer)
        except Exception:
            log.exception("an answer of listener %s could not be judged", called.id)
            await self._release(lane, [Release(lease.receipt, JUDGE_RETRY_MS) for lease in parcel])
        finally:
            self._dispatch(lane)
            self._pump(lane)

    def _judge_answer(self, lane: Lane, called: Listener, parcel: list[Lease], answer: Answer | None) -> None:
        if answer is None:
            for lease in parcel:
                lane.leases.pop(lease.receipt, None)
        elif isinstance(lane, BatchLane):
            self._batches.judge.judge(lane, parcel, answer, then=self._pump)
        else:
            outdated = is_fresh_start(called, lane.listener)
            self._judge.judge(lane, parcel[0], answer, outdated=outdated, then=self._pump)

    async def _attempt(self, lane: Lane, parcel: list[Lease]) -> Answer | None:
        """One request, or None when a lease was lost before it was made, or every lease before it was answered."""
        receipts = [lease.receipt for lease in parcel]

        def may_send() -> bool:
            now = self._clock.now()
            return all(lane.holds(receipt, now=now) for receipt in receipts)

        if not may_send():
            return None
        cover = self._cover(lane)
        if isinstance(cover, str):
            return BridgeAnswer(error=cover, unreached=True)
        limit = asyncio.timeout(None)
        try:
            async with limit:
                lane.requests.update(dict.fromkeys(receipts, limit))
                return await self._request(lane, cover, parcel, may_send)
        except Withdrawn:
            return None
        except TimeoutError:
            if not limit.expired():
                raise
            return None
        finally:
            for receipt in receipts:
                lane.requests.pop(receipt, None)

    async def _request(self, lane: Lane, cover: Envelope, parcel: list[Lease], may_send: Callable[[], bool]) -> Answer:
        listener = lane.listener
        if isinstance(lane, BatchLane):
            counters = (await self._broker.counters_of([lane.outbox])).get(lane.outbox.key, Counters())
            batch = write_batch(lane.outbox.name, parcel, counters)
            return await self._batches.bridges.deliver(lane.listener, cover, batch, may_send=may_send)
        name, now, wall = self._queue_name(listener), self._clock.now(), self._clock.wall()
        return await self._postman.deliver(
            listener, cover, parcel[0].message, queue_name=name, now=now, wall=wall, may_send=may_send
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
