"""Audit events: who signed in, who was denied, who read a secret, each with the caller's address.

Reading a secret is in the journal before the secret is shown. Sign-ins and denied calls can be many, so they are
counted and written once a minute: one event for each address, principal and reason, with a count. An address has at
most `KEYS_PER_ADDRESS` of these a minute and all addresses together `KEY_COUNT`; what exceeds that is counted in one
event for the address, or in one for all. So nobody fills the disk by being denied.
"""

import logging
from collections import Counter

import msgspec

from couriermq.auth.principal import Principal
from couriermq.catalog import DEFAULT_TENANT
from couriermq.clock import Clock
from couriermq.core.errors import CourierError
from couriermq.core.events import Event, EventKind
from couriermq.core.model import MINUTE, Json, Listener
from couriermq.storage.base import Store
from couriermq.web.call import Call

KEYS_PER_ADDRESS = 20
KEY_COUNT = 2_000
REST = "others"
"""The address of what was too much to tell apart."""
PRINCIPAL_CHARS = 128

log = logging.getLogger("couriermq.audit")


class Happening(msgspec.Struct, frozen=True):
    """What is counted together."""

    kind: EventKind
    tenant: str
    principal: str
    address: str
    status: int | None = None
    dialect_path: str | None = None


class Audit:
    """Counts in memory and writes to the journal; `run` it as a task."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._counts: Counter[Happening] = Counter()
        self._keys: Counter[str] = Counter()

    # -- what happens -----------------------------------------------------------------------------------------

    def signed_in(self, call: Call, principal: Principal) -> None:
        """A token was granted."""
        tenant = principal.tenant or DEFAULT_TENANT
        self._count(Happening(EventKind.SIGNED_IN, tenant, principal.id, call.origin.address, None, _area(call)))

    def denied(self, call: Call, status: int) -> None:
        """A call was refused for want of a credential or of a right; `tenant` is the caller's, or else the default."""
        tenant, principal = call.principal.tenant or DEFAULT_TENANT, call.principal.id[:PRINCIPAL_CHARS]
        self._count(Happening(EventKind.DENIED, tenant, principal, call.origin.address, status, _area(call)))

    async def secret_read(self, call: Call, listener: Listener) -> None:
        """A signing secret is about to be shown; raises where that cannot be written down."""
        detail: dict[str, Json] = {"address": call.origin.address, "listener": listener.id, "count": 1}
        event = Event(
            kind=EventKind.SECRET_READ,
            at=self._clock.now(),
            tenant=listener.tenant,
            queue_id=listener.queue_id,
            principal=call.principal.id,
            detail=detail,
        )
        await self._store.change_records(events=[event])

    # -- writing it down --------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            await self._clock.sleep_until(self._clock.now() + MINUTE)
            await self.flush()

    async def flush(self) -> None:
        """Write what was counted; where that fails, it is counted on."""
        counts, self._counts = self._counts, Counter()
        self._keys = Counter()
        if not counts:
            return
        try:
            await self._store.change_records(events=[self._event(*pair) for pair in counts.items()])
        except CourierError as error:
            log.warning("audit events could not be written; will try again", extra={"reason": str(error)})
            for happening, count in counts.items():
                self._count(happening, count)

    def _count(self, happening: Happening, count: int = 1) -> None:
        if happening not in self._counts:
            happening = self._bounded(happening)
            self._keys[happening.address] += happening not in self._counts
        self._counts[happening] += count

    def _bounded(self, happening: Happening) -> Happening:
        if len(self._counts) >= KEY_COUNT:
            return Happening(happening.kind, DEFAULT_TENANT, REST, REST)
        if self._keys[happening.address] >= KEYS_PER_ADDRESS:
            return Happening(happening.kind, DEFAULT_TENANT, REST, happening.address)
        return happening

    def _event(self, happening: Happening, count: int) -> Event:
        detail: dict[str, Json] = {"address": happening.address, "count": count}
        if happening.status is not None:
            detail["status"] = happening.status
        if happening.dialect_path is not None:
            detail["path"] = happening.dialect_path
        return Event(
            kind=happening.kind,
            at=self._clock.now(),
            tenant=happening.tenant,
            principal=happening.principal,
            detail=detail,
        )


def _area(call: Call) -> str:
    """The method and the first part of the path, which tells the dialect; the rest may be anything."""
    return f"{call.method} /{call.path.split('/')[1][:32]}"
