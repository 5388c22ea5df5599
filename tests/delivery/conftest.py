"""Courier without a socket, with receivers that have one."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.clock import FakeClock
from couriermq.core.events import Event
from couriermq.core.lanes import first_of_lane
from couriermq.core.model import Counters, Draft, Listener, ListenerSettings, Queue, Sent
from couriermq.delivery import DeliveryAttempt, Health
from tests.support.eventually import eventually
from tests.support.inprocess import InProcess, courier_app
from tests.support.receiver import Receiver, receiving

COURIER: dict[str, Any] = {"delivery_allow": ("127.0.0.0/8",), "dialects": ("native", "cloudflare", "anypoint")}
"""A Courier that may deliver to this machine."""


class Post:
    """A queue and its listeners, as a test speaks of them."""

    def __init__(self, app: InProcess) -> None:
        self.app = app
        self.services = app.services
        self.broker = app.services.broker
        self.catalog = app.services.catalog
        self.deliveries = app.services.deliveries

    @property
    def clock(self) -> FakeClock:
        return self.app.clock

    async def queue(self, name: str = "orders", **facts: Any) -> Queue:
        return await self.catalog.create_queue("default", name, principal="test", **facts)

    async def listen(self, queue: Queue, url: str, name: str = "shop", **settings: Any) -> Listener:
        """A listener; keys that are no settings are facts of the listener itself."""
        facts = {key: settings.pop(key) for key in ("liveness_url", "secrets") if key in settings}
        facts.setdefault("secrets", (self.deliveries.new_secret(),))
        return await self.catalog.create_listener(
            queue, name, url, settings=ListenerSettings(**settings), principal="test", **facts
        )

    async def send(self, queue: Queue, *bodies: bytes, **facts: Any) -> list[Sent]:
        drafts = [Draft(body=body, content_type="text/plain", **facts) for body in bodies]
        sent = await self.broker.send(queue, drafts, principal="test")
        assert all(isinstance(one, Sent) for one in sent)
        return sent  # type: ignore[return-value]

    def now(self, listener: Listener) -> Listener:
        """The listener as it is by now."""
        queue = self.catalog.queue_by_id(listener.tenant, listener.queue_id)
        return self.catalog.listener(queue, listener.id)

    async def events(self) -> list[Event]:
        """The whole history, journal and archive."""
        events: list[Event] = []
        for lane, span in (await self.broker.spans()).items():
            start = first_of_lane(lane)
            while start < span.next:
                entries = await self.broker.read_events(start=start, limit=1_000)
                events.extend(entry.event for entry in entries)
                start = entries[-1].offset + 1
        return sorted(events, key=lambda event: event.at)

    async def attempts(self, listener: Listener, count: int) -> list[DeliveryAttempt]:
        """The log, newest first, once it has so many lines."""
        await eventually(lambda: len(self.deliveries._log._recent.get(listener.id, ())) >= count)
        return await self.deliveries.log(listener)

    async def delivered(self, listener: Listener, count: int) -> None:
        """Until so many messages are delivered and that is written down."""
        await eventually(lambda: self.waiting(listener), lambda counters: counters.acked_count >= count)
        lane = self.deliveries._dispatcher.lane_of(listener)
        await eventually(lambda: lane is None or not (lane.settling or lane.unsettled))

    async def waiting(self, listener: Listener) -> Counters:
        return await self.broker.counters(self.catalog.outbox(listener))

    async def dead(self, listener: Listener) -> Counters:
        return await self.broker.counters(self.catalog.dead_letters(listener))

    def health(self, listener: Listener) -> Health:
        return self.deliveries.health(listener)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def post(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Post]:
    async with courier_app(tmp_path, clock=clock, **COURIER) as app:
        yield Post(app)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as one:
        yield one
