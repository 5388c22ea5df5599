"""What watches a running server, put together once."""

import asyncio
from typing import Protocol

from couriermq.broker import Broker
from couriermq.catalog import Catalog
from couriermq.clock import Clock
from couriermq.core.flows import Flows
from couriermq.monitor.node import NodeFigures
from couriermq.monitor.overview import Overview
from couriermq.monitor.rates import Rates
from couriermq.monitor.sampler import Sampler
from couriermq.monitor.streams import Streams
from couriermq.storage.base import Store
from couriermq.telemetry.metrics import Measured


class MonitoredStore(Store, Measured, Protocol):
    """A store that also counts what its commits cost."""


class Monitor:
    """Counts what happens; `run` it as a task. Where nodes share a store it is sampled, because others commit too."""

    def __init__(
        self, store: MonitoredStore, broker: Broker, catalog: Catalog, clock: Clock, *, shared: bool, streams: int
    ) -> None:
        self.rates = Rates()
        self.node = NodeFigures(store, clock)
        self._sampler = Sampler(store, broker, catalog, clock, self.rates) if shared else None
        self.streams = Streams(clock, streams)
        self.overview = Overview(broker, catalog, clock, self.rates, self.watch)

    def happened(self, flows: Flows) -> None:
        """A commit of this node."""
        if self._sampler is None:
            self.rates.happened(flows)

    def watch(self) -> None:
        """Somebody looks at rates now."""
        if self._sampler is not None:
            self._sampler.watch()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.streams.run())
            if self._sampler is not None:
                tasks.create_task(self._sampler.run())

    def close(self) -> None:
        """End live streams: the server is going down."""
        self.streams.close()
