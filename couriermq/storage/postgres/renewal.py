"""The part of the store that knows which store it is, also after its database has changed over."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from couriermq.clock import fresh_key
from couriermq.core.errors import Unavailable
from couriermq.core.incarnations import Identity, Stamp
from couriermq.core.jumps import Jump
from couriermq.core.model import Settlement
from couriermq.storage.base import CannotOpen
from couriermq.storage.postgres.identity import open_identity
from couriermq.storage.postgres.link import Connection, ask
from couriermq.storage.postgres.porting import join
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.settling import Token, read_tokens

if TYPE_CHECKING:
    from couriermq.core.receipts import Sealer
    from couriermq.storage.postgres.circle import Circle
    from couriermq.storage.postgres.journal import Journal
    from couriermq.storage.postgres.pool import Pool

log = logging.getLogger(__name__)


class Renewal:
    """Begins a new incarnation, or learns of one that another node has begun."""

    identity: Identity
    changed_reason: str | None = None
    """Why this node must be started anew, if so."""

    if TYPE_CHECKING:
        sealer: Sealer
        now: Callable[[], int]
        _shard: int
        _seal_key: bytes | None
        _circle: Circle
        _journal: Journal
        _pool: Pool
        _on_change: Callable[[], None]

    @property
    def stamp(self) -> Stamp:
        return self.identity.stamp

    @property
    def jumps(self) -> Sequence[Jump]:
        return self.identity.jumps

    async def _identify(self, connection: Connection) -> tuple[Identity, str]:
        return await open_identity(connection, shard=self._shard, space=self._circle.space, now=self.now)

    async def _renew(self, connection: Connection) -> str:
        """The database was restored, or a standby promoted, while this node was running; raises Unavailable where the
        control plane there is older than what the node knows."""
        self.identity, origin = await self._identify(connection)
        ((version,),) = (await ask(connection, [(Q.catalog_version, {})]))[0]
        if version < self._circle.catalog_version:
            self.changed_reason = "the database is in an earlier state than this node knows; start the node anew"
            log.critical(self.changed_reason)
            self._on_change()
            raise Unavailable(self.changed_reason)
        self.sealer.renew(self.identity.tags)
        self._journal.jumps = self.identity.jumps
        self._circle.seqs.clear()
        self._circle.marks.forget_all()
        return origin

    async def _read_tokens(self, settlements: Sequence[Settlement]) -> list[Token | None]:
        """What the receipts say. One that seems to be made up may be of an incarnation that another node has begun:
        whoever asks the database then comes to hear of it."""
        tokens = read_tokens(self.sealer, settlements)
        if None in tokens:
            await self._pool.ask_one("SELECT 1")
            tokens = read_tokens(self.sealer, settlements)
        return tokens

    async def _join(self, connection: Connection) -> None:
        if self._shard and self._seal_key is not None:
            refused = await join(connection, self._shard, self._seal_key)
        else:
            found = (await ask(connection, [(Q.read_meta, {"name": "shard"})]))[0]
            refused = f"it is shard {int(bytes(found[0][0]))} of another store" if found else None
            await ask(connection, [(Q.add_meta, {"name": "seal_key", "value": fresh_key()})] * (not refused))
        if refused:
            raise CannotOpen(f"the database cannot be used as shard {self._shard}: {refused}")
