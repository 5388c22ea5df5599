"""Everything that batches need beside what single deliveries need."""

from couriermq.clock import Clock
from couriermq.delivery.batch_judge import BatchJudge
from couriermq.delivery.book import HealthBook
from couriermq.delivery.bridge import Bridges
from couriermq.delivery.client import Client
from couriermq.delivery.concurrency import ConcurrencyMeter
from couriermq.delivery.settling import Settler


class Batches:
    """The way of a batch: to the bridge, and from its answer to the store."""

    def __init__(self, client: Client, clock: Clock, *, book: HealthBook, settler: Settler) -> None:
        self.bridges = Bridges(client, clock)
        self.judge = BatchJudge(clock, book=book, settler=settler)
        self.meter = ConcurrencyMeter()
