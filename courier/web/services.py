"""What handlers may ask for; put together once by the server."""

import msgspec

from courier.auth.gate import Gate
from courier.broker import Broker
from courier.catalog import Catalog
from courier.claims import Claims
from courier.clock import Clock
from courier.config import Settings
from courier.core.receipts import Sealer
from courier.delivery import Deliveries
from courier.journal.cursors import Cursors
from courier.journal.history import History
from courier.lake.stats import Stats
from courier.lake.tables import Lake
from courier.stages import Stages
from courier.storage.base import Shards


class Services(msgspec.Struct, frozen=True):
    broker: Broker
    catalog: Catalog
    auth: Gate
    clock: Clock
    sealer: Sealer
    """Seals refs to messages that were only looked at."""
    settings: Settings
    deliveries: Deliveries
    history: History
    cursors: Cursors
    lake: Lake
    stats: Stats
    claims: Claims
    stages: Stages
    shards: Shards | None = None
    """Only a store that can be divided has them."""


__all__ = ["Services", "Shards"]
