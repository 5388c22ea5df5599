"""Delivery as the rest of Courier sees it."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from msgspec.structs import replace

from couriermq.broker import Broker
from couriermq.catalog import Catalog
from couriermq.clock import Clock
from couriermq.core.duties import delivery_to
from couriermq.core.errors import CourierError, Invalid, NotFound
from couriermq.core.model import DAY, MINUTE, Listener, ListenerSettings, ListenerState, Queue, Secret
from couriermq.delivery import signing
from couriermq.delivery.alarms import Alarms
from couriermq.delivery.authorization import Authorizer
from couriermq.delivery.batches import Batches
from couriermq.delivery.book import HealthBook
from couriermq.delivery.challenge import answers_challenge
from couriermq.delivery.checks import check_listener_name, check_listener_settings
from couriermq.delivery.client import Client
from couriermq.delivery.consumers import WorkerConsumer, served_consumer
from couriermq.delivery.dispatcher import Dispatcher
from couriermq.delivery.egress import Proxy
from couriermq.delivery.envelope import Postman
from couriermq.delivery.fairness import FairWork
from couriermq.delivery.files import open_files
from couriermq.delivery.guard import Guard, Network, Resolver
from couriermq.delivery.health import afresh
from couriermq.delivery.judging import Judge
from couriermq.delivery.liveness import LivenessChecks
from couriermq.delivery.log import DeliveryLog
from couriermq.delivery.model import DeliveryAttempt, Health, LogPage
from couriermq.delivery.renewing import Renewals
from couriermq.delivery.replay import Replayed, Replays
from couriermq.delivery.resolving import SystemResolver
from couriermq.delivery.settling import Settler
from couriermq.delivery.tasks import Tasks

GRACE_SECONDS = 5.0
"""How long a stopping server waits for receivers to answer."""
DISABLE_MS = 5 * DAY
LIVENESS_MS = MINUTE
HANDOVER_MS = MINUTE
"""No listener is longer than this without a node that delivers to it, while there are nodes."""
STORE_CALLS = 64
"""How many calls of deliveries the store has in hand at once; a tenant has half of them at most."""
BURST = 16
"""How much is begun in one turn of the event loop, so that requests of clients do not wait long."""


log = logging.getLogger(__name__)


class Deliveries:
    """Made by the server; `ready` is wired to the store, `running` lasts as long as the server does."""

    def __init__(
        self,
        broker: Broker,
        catalog: Catalog,
        clock: Clock,
        *,
        allow: Sequence[Network] = (),
        blocked_ports: Sequence[int] = (),
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
        proxy: Proxy | None = None,
        proxy_resolves: bool = False,
        disable_ms: int = DISABLE_MS,
        liveness_ms: int = LIVENESS_MS,
        holds: Callable[[str], bool] = lambda duty: True,
        shared: bool = False,
    ) -> None:
        self._broker = broker
        self._catalog = catalog
        self._clock = clock
        self._own_resolver = SystemResolver() if resolver is None else None
        names = resolver or self._own_resolver or SystemResolver()
        self.guard = Guard(names, allow, allow_of=catalog.delivery_allow, blocked_ports=blocked_ports)
        self._proxy_resolves = proxy is not None and proxy_resolves
        self._client = Client(self.guard, tls=tls, proxy=proxy, proxy_resolves=proxy_resolves)
        self._alarms = Alarms(clock)
        self._tasks, self._requests = Tasks(), Tasks()
        self._store_work = FairWork(self._tasks, total=STORE_CALLS, each=STORE_CALLS // 2, burst=BURST)
        most = open_files() // 2  # and a quarter of that for one tenant
        self._request_work = FairWork(self._requests, total=most, each=max(most // 4, 1), burst=BURST)
        self._book = HealthBook(
            catalog, clock, self._alarms, self._tasks, is_ours=lambda listener: holds(delivery_to(listener.id))
        )
        self._log = DeliveryLog(broker, shared=shared)
        self._replays = Replays(broker, catalog)
        settler = Settler(broker, self._log, self._tasks, self._store_work)
        self._batches = Batches(self._client, clock, book=self._book, settler=settler)
        self._consumers: dict[str, WorkerConsumer] = {}
        """By the id of the queue, the worker consumers that are served."""
        judge = Judge(catalog, clock, book=self._book, settler=settler, tasks=self._tasks, disable_ms=disable_ms)
        self._dispatcher = Dispatcher(
            broker,
            catalog,
            clock,
            guard=self.guard,
            postman=Postman(self._client, Authorizer(self._client, self.guard, clock)),
            alarms=self._alarms,
            tasks=self._tasks,
            store=self._store_work,
            requests=self._request_work,
            judge=judge,
            batches=self._batches,
            renewals=Renewals(broker, clock, self._alarms, self._store_work),
            holds=holds,
        )
        self._liveness = LivenessChecks(
            clock,
            self._client,
            self.guard,
            alarms=self._alarms,
            tasks=self._tasks,
            book=self._book,
            dispatcher=self._dispatcher,
            interval_ms=liveness_ms,
        )

    # -- running ----------------------------------------------------------------------------------------------

    def ready(self, queue_key: int, count: int) -> None:
        """The store's word that a queue has something ready; most queues are nobody's outbox."""
        self._dispatcher.ready(queue_key, count)

    def duties_changed(self) -> None:
        """The store's word that other listeners than before are this node's to deliver to."""
        taken_over = self._dispatcher.duties_changed()
        self._book.give_up()
        self._make_up_for(taken_over)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Deliver; at the end let requests in hand finish, write down what they came to, and let go."""
        for listener in self._catalog.listeners():
            self._dispatcher.changed(listener)
            self._liveness.known(listener)
        for queue in self._catalog.all_queues():
            self._queue_changed(queue, True)
        self._catalog.watch_listeners(self._changed)
        self._catalog.watch_consumers(self._queue_changed)
        ringing = asyncio.create_task(self._alarms.run())
        self._make_up_for(self._dispatcher.start())
        try:
            yield
        finally:
            self._catalog.watch_listeners(None)
            self._catalog.watch_consumers(None)
            ringing.cancel()
            await self._stop()

    async def _stop(self) -> None:
        self._dispatcher.stop()
        self._liveness.stop()
        for _ in range(2):  # what was being leased when it stopped is given back in the second round
            await self._request_work.finish(seconds=GRACE_SECONDS)
            await self._requests.finish(seconds=GRACE_SECONDS)
            await self._store_work.finish(seconds=GRACE_SECONDS)
            await self._tasks.finish(seconds=GRACE_SECONDS)
        await self._book.save()
        self._client.close()
        if self._own_resolver is not None:
            self._own_resolver.close()

    def _changed(self, listener: Listener, present: bool) -> None:
        if present:
            if self._dispatcher.is_fresh_start(listener):
                self._start_afresh(listener)
            self._dispatcher.changed(listener)
            self._liveness.changed(listener)
        else:
            for part in (self._dispatcher, self._liveness):
                part.gone(listener)
            self._log.forget(listener)
            self._book.forget(listener)

    def _queue_changed(self, queue: Queue, present: bool) -> None:
        """Serve the queue's worker consumer as it is now, or no longer."""
        known = self._consumers.pop(queue.id, None)
        consumer = served_consumer(self._catalog, queue) if present else None
        if known is not None and (consumer is None or consumer.id != known.id):
            self._dispatcher.gone(known)
            self._book.forget(known)
            self._log.forget(known)
            self._batches.meter.forget(queue.id)
        if consumer is not None:
            self._consumers[queue.id] = consumer
            self._dispatcher.changed(consumer)

    def _start_afresh(self, listener: Listener) -> None:
        """Deliver at once what has waited for another attempt, and judge the listener by what comes of that."""
        if self._dispatcher.is_ours(listener):
            self._book.put(listener, afresh(self._book.of(listener)))
            self._dispatcher.start_afresh(listener)
        self._tasks.start(self._hasten(listener))

    def _make_up_for(self, listeners: Sequence[Listener]) -> None:
        """A change that was made while no node delivered to the listener may have been a fresh start.

        Nobody remembers how the listener was before; what waits is hastened once too often at worst.
        """
        since = self._clock.now() - HANDOVER_MS
        for listener in listeners:
            is_changed = listener.changed_at >= since and listener.changed_at > listener.created_at
            if is_changed and listener.state is ListenerState.ACTIVE and not isinstance(listener, WorkerConsumer):
                self._start_afresh(listener)

    async def _hasten(self, listener: Listener) -> None:
        try:
            await self._broker.hasten(self._catalog.outbox(listener))
        except NotFound:
            return  # the listener was deleted meanwhile
        except CourierError as error:
            log.warning("what waits for listener %s comes by its schedule: %s", listener.id, error)

    # -- what is known ----------------------------------------------------------------------------------------

    def health(self, listener: Listener) -> Health:
        """How the listener has been doing, up to this moment."""
        lane = self._dispatcher.lane_of(listener) if self._dispatcher.is_ours(listener) else None
        health = self._book.of(listener)
        return replace(health, breaker=lane.breaker.state(now=self._clock.now())) if lane else health

    def consumer(self, queue: Queue) -> WorkerConsumer | None:
        """The worker consumer of a queue, where its script is attached to a bridge."""
        return self._consumers.get(queue.id)

    def concurrency(self, queue: Queue) -> dict[int, float]:
        """How many invocations of the queue's consumer ran at a time, by the start of the minute."""
        return self._batches.meter.averages(queue.id, now=self._clock.now())

    async def log(self, listener: Listener, limit: int = 100, before: str | None = None) -> list[DeliveryAttempt]:
        """Recent attempts, newest first."""
        return (await self.log_page(listener, limit=limit, before=before)).attempts

    async def log_page(self, listener: Listener, *, limit: int = 100, before: str | None = None) -> LogPage:
        """The same with the cursor of the page that follows; a page that holds few may have a `next` all the same."""
        return await self._log.page(listener, limit=limit, before=before)

    # -- what can be asked ------------------------------------------------------------------------------------

    async def replay(
        self,
        listener: Listener,
        *,
        message_ids: Sequence[str] | None = None,
        since: int | None = None,
        until: int | None = None,
        missed: bool = False,
        principal: str,
    ) -> Replayed:
        """Deliver again: chosen messages, all that were sent in a span of time, or all that were missed."""
        span = since is not None or until is not None
        if [message_ids is not None, span, missed].count(True) != 1:
            raise Invalid("choose one of message_ids, since and until, or missed")
        listener = self._present(listener)
        if message_ids is not None:
            return await self._replays.chosen(listener, message_ids, principal=principal)
        if missed:
            return await self._replays.missed(listener, principal=principal)
        until = self._clock.now() + 1 if until is None else until
        return await self._replays.span(listener, since=since or 0, until=until, principal=principal)

    def _present(self, listener: Listener) -> Listener:
        """The listener as it is now; raises ListenerNotFound."""
        return self._catalog.listener(self._catalog.queue_by_id(listener.tenant, listener.queue_id), listener.id)

    async def pause(self, listener: Listener, *, principal: str) -> Listener:
        """Deliver nothing more until it is resumed; what is sent waits."""
        return await self._catalog.change_listener(
            listener, state=ListenerState.PAUSED, reason=None, principal=principal
        )

    async def resume(self, listener: Listener, *, principal: str) -> Listener:
        """Deliver what has waited, at once and whatever its schedule says; an active listener can be resumed, too."""
        was_active = self._present(listener).state is ListenerState.ACTIVE
        resumed = await self._catalog.change_listener(
            listener, state=ListenerState.ACTIVE, reason=None, principal=principal
        )
        if was_active:  # else the change itself is a fresh start, on the node that delivers to the listener
            self._start_afresh(resumed)
        return resumed

    def new_secret(self, *, asymmetric: bool = False) -> Secret:
        return signing.new_secret(self._clock, asymmetric=asymmetric)

    def given_secret(self, value: str) -> Secret:
        """A secret of the caller's choice; raises Invalid when nothing could be signed with it."""
        return signing.given_secret(value, now=self._clock.now())

    async def rotate_secret(
        self,
        listener: Listener,
        *,
        secret: Secret | None = None,
        overlap_ms: int = signing.OVERLAP_MS,
        principal: str,
    ) -> Listener:
        """Sign with a new secret, and for `overlap_ms` with the old ones too."""

        def change(present: Listener) -> dict[str, tuple[Secret, ...]]:
            newest = present.secrets[0].value if present.secrets else ""
            new = secret or self.new_secret(asymmetric=newest.startswith(signing.KEY_PREFIX))
            return {"secrets": signing.rotated(present.secrets, new, overlap_ms=overlap_ms, now=self._clock.now())}

        return await self._catalog.change_listener(listener, change, principal=principal)

    async def check_urls(self, urls: Mapping[str, str | None], *, tenant: str) -> None:
        """Raise Invalid with a sentence when a tenant may not deliver to one of the URLs, which their fields name."""
        given = {field: url for field, url in urls.items() if url is not None}
        for field, url in given.items():
            self.guard.check_url(url, tenant=tenant, field=field)
        if not self._proxy_resolves:  # else names are the proxy's to judge
            await self.guard.check_names(given, tenant=tenant)

    def check_settings(self, settings: ListenerSettings, *, tenant: str) -> None:
        check_listener_settings(settings, self.guard, tenant=tenant)

    def check_name(self, name: str) -> None:
        check_listener_name(name)

    async def challenge(self, host: str, port: int, path: str, expected: str, *, tenant: str) -> bool:
        """Whether the host serves exactly `expected` at the path: proof that whoever asks controls it."""
        return await answers_challenge(self._client, self.guard, host, port, path, expected, tenant=tenant)
