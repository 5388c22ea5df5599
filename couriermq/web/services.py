"""What handlers may ask for; put together once by the server."""

from collections.abc import Callable

import msgspec

from couriermq.auth.audit import Audit
from couriermq.auth.gate import Gate
from couriermq.broker import Broker
from couriermq.catalog import Catalog
from couriermq.claims import Claims
from couriermq.clock import Clock
from couriermq.config import Settings
from couriermq.console.session import Sessions
from couriermq.core.incarnations import Stamp
from couriermq.core.numbers import Numbering
from couriermq.core.receipts import Sealer
from couriermq.delivery import Deliveries
from couriermq.journal.cursors import Cursors
from couriermq.journal.followers import Followers
from couriermq.journal.history import History
from couriermq.lake.stats import Stats
from couriermq.lake.tables import Lake
from couriermq.monitor.monitor import Monitor
from couriermq.operations import Operations
from couriermq.purges import Purges
from couriermq.stages import Stages
from couriermq.storage.base import Shards
from couriermq.web.proxies import Proxies
from couriermq.web.views import Showing


class Services(msgspec.Struct, frozen=True):
    broker: Broker
    catalog: Catalog
    auth: Gate
    clock: Clock
    sealer: Sealer
    """Seals refs to messages that were only looked at."""
    numbering: Numbering
    """Says which numbers each caller sees instead of the store's own."""
    settings: Settings
    deliveries: Deliveries
    history: History
    cursors: Cursors
    lake: Lake
    stats: Stats
    claims: Claims
    stages: Stages
    audit: Audit
    purges: Purges
    followers: Followers
    sessions: Sessions
    monitor: Monitor
    operations: Operations
    stamp: Callable[[], Stamp]
    """Which store, and which incarnation of it, the journal is of."""
    shards: Shards | None = None
    """Only a store that can be divided has them."""
    proxies: Proxies = Proxies()
    showing: list[Showing] = []
    """The dialects that can show a message, once they are loaded."""


__all__ = ["Services", "Shards"]
