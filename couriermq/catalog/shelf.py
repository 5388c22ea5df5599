"""Keeps memory and store in step: a change is on disk before it is seen."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TypeVar

import msgspec

from couriermq.catalog.memory import Memory, Thing
from couriermq.catalog.upgrading import upgraded
from couriermq.catalog.vault import CannotUnseal, StoredListener, Vault
from couriermq.clock import Clock, mint_id
from couriermq.core.events import Event, EventKind
from couriermq.core.model import Binding, Credential, Exchange, Json, Listener, Queue, Record, Tenant
from couriermq.core.quotas import Quotas
from couriermq.core.redaction import redacted_url
from couriermq.storage.base import Store, StoredRecord

T = TypeVar("T", bound=Thing)
V = TypeVar("V")

KINDS: dict[str, type[Thing]] = {
    "tenant": Tenant,
    "queue": Queue,
    "exchange": Exchange,
    "binding": Binding,
    "listener": StoredListener,
    "credential": Credential,
    "record": Record,
}


SEALED_AT_ONCE = 100

log = logging.getLogger(__name__)
CALLER: ContextVar[tuple[str, str]] = ContextVar("caller", default=("", ""))
"""The principal and the address of the call that is being answered, for the journal."""

Learner = Callable[[StoredRecord, bool], None]
"""Is told a record that another node has changed, and whether it is still there."""


class _Turn:
    """One change at a time: in this process by a lock of its own, among all nodes by the store's."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._here = asyncio.Lock()
        self._everywhere = contextlib.AsyncExitStack()

    async def __aenter__(self) -> None:
        await self._here.acquire()
        try:
            await self._everywhere.enter_async_context(self._store.changing())
        except BaseException:
            self._here.release()
            raise

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._everywhere.aclose()
        finally:
            self._here.release()


class Shelf(Memory):
    """Memory with a store behind it; one change at a time."""

    def __init__(
        self, store: Store, clock: Clock, vault: Vault | None = None, *, default_quotas: Quotas | None = None
    ) -> None:
        super().__init__(default_quotas or Quotas())
        self._vault = vault or Vault()
        self._store = store
        self._clock = clock
        self._writing = _Turn(store)
        self._learners: dict[str, Learner] = {}

    def _mint_id(self, tenant: str) -> str:
        """A new id that is nothing's id and nothing's name."""
        while True:
            minted = mint_id(self._clock)
            if self._is_free_id(tenant, minted):
                return minted

    async def _put(self, thing: T, kind: EventKind, principal: str, *with_it: Thing) -> T:
        """Write a thing and what belongs to it, as one event."""
        things = (*with_it, thing)
        await self._store.change_records(
            put=[self._stored(one) for one in things], events=[self._event(kind, thing, principal)]
        )
        for one in things:
            self._remember(one)
        return thing

    async def _put_all(self, things: Sequence[tuple[Thing, EventKind]], principal: str) -> None:
        """Write things that have nothing to do with each other, each an event of its own, in one change."""
        if things:
            events = [self._event(kind, thing, principal) for thing, kind in things]
            await self._store.change_records(put=[self._stored(thing) for thing, _ in things], events=events)
            for thing, _ in things:
                self._remember(thing)

    async def _drop(self, things: Sequence[Thing], kind: EventKind, principal: str) -> None:
        """Forget first: whoever is about to use the thing in the same commit must find it gone."""
        for thing in things:
            self._forget(thing)
        try:
            await self._store.change_records(
                delete=[self._stored(thing) for thing in things], events=[self._event(kind, things[0], principal)]
            )
        except BaseException:
            for thing in things:
                self._remember(thing)
            raise

    def learn(self, *, put: Sequence[StoredRecord], delete: Sequence[StoredRecord]) -> None:
        """Another node has changed these; what is known already is no news."""
        for stored in delete:
            if stored.kind not in KINDS:
                self._pass_on(stored, False)
            elif (thing := self._learned(stored)) is not None and (known := self._present(thing)) is not None:
                self._forget(known)  # it may have been changed before it was deleted
        for stored in put:
            if stored.kind not in KINDS:
                self._pass_on(stored, True)
            elif (thing := self._learned(stored)) is not None and self._present(thing) != thing:
                self._remember(thing)

    def _learned(self, stored: StoredRecord) -> Thing | None:
        """What another node has written, unless it uses a key that this one does not have."""
        try:
            return self._read(stored)
        except CannotUnseal as error:
            log.error("%s", error)
            return None

    async def catch_up(self) -> bool:
        """Learn what other nodes have done; whether there was anything to learn."""
        return await self._store.catch_up()

    def leave_to(self, kind: str, learner: Learner) -> None:
        """Records of a kind that the catalog does not know are somebody else's to learn."""
        self._learners[kind] = learner

    def _pass_on(self, stored: StoredRecord, present: bool) -> None:
        learner = self._learners.get(stored.kind)
        if learner is not None:  # else a newer Courier keeps something that this one has no use for
            learner(stored, present)

    def _read(self, stored: StoredRecord) -> Thing:
        """A thing from its record; raises CannotUnseal where its secrets cannot be read."""
        thing = msgspec.msgpack.decode(stored.document, type=KINDS[stored.kind])
        if isinstance(thing, StoredListener):
            return self._vault.opened(thing)
        return upgraded(thing) if isinstance(thing, Credential) else thing

    def _stored(self, thing: Thing) -> StoredRecord:
        document = self._vault.sealed(thing) if isinstance(thing, Listener) else thing
        return StoredRecord(
            kind=type(thing).__name__.lower(),
            tenant=thing.id if isinstance(thing, Tenant) else thing.tenant,
            id=_identity(thing),
            document=msgspec.msgpack.encode(document),
            slot=f"{thing.tenant}/destination/{thing.name}" if isinstance(thing, Queue | Exchange) else None,
        )

    async def _seal_again(self, records: Sequence[StoredRecord]) -> None:
        """Store listeners as the newest key has them; nothing of them changes, so that there is nothing to tell."""
        old = {record.id for record in records if record.kind == "listener" and not self._is_current(record)}
        if not old:
            return
        async with self._writing:
            present = [self._stored(listener) for listener in self.listeners() if listener.id in old]
            for start in range(0, len(present), SEALED_AT_ONCE):
                await self._store.change_records(put=present[start : start + SEALED_AT_ONCE])

    def _is_current(self, record: StoredRecord) -> bool:
        return self._vault.is_current(msgspec.msgpack.decode(record.document, type=StoredListener).sealed)

    def _event(self, kind: EventKind, thing: Thing, principal: str) -> Event:
        return Event(
            kind=kind,
            at=self._clock.now(),
            tenant=thing.id if isinstance(thing, Tenant) else thing.tenant,
            queue_id=thing.id if isinstance(thing, Queue | Exchange) else getattr(thing, "queue_id", None),
            queue=thing.name if isinstance(thing, Queue | Exchange) else None,
            principal=principal,
            detail=_detail(thing) | _whence(principal),
        )


def changed(present: V, change: V | Callable[[V], V] | None) -> V:
    """What is wanted: a value in place of the present one, what a function makes of that, or the same as before."""
    if change is None:
        return present
    return change(present) if callable(change) else change


def _whence(principal: str) -> dict[str, Json]:
    """The address of the caller whose change it is."""
    caller, address = CALLER.get()
    return {"address": address} if caller == principal else {}


def _identity(thing: Thing) -> str:
    match thing:
        case Binding():
            return f"{thing.exchange_id}:{thing.queue_id}"
        case Record():
            return f"{thing.kind}:{thing.id}"
    return thing.id


def _detail(thing: Thing) -> dict[str, Json]:
    """The thing as the journal shows it: all of it but its secrets."""
    detail: dict[str, Json] = msgspec.to_builtins(thing)
    detail.pop("secret_hash", None)
    detail.pop("dialect_facts", None)
    detail.pop("secrets", None)
    detail.pop("old_secrets", None)
    detail.pop("delivery_allow", None)  # a tenant's journal does not show the operator's networks
    if isinstance(thing, Record):
        detail.pop("document")
    if isinstance(thing, Listener):
        for name in ("headers", "authorization"):
            detail["settings"].pop(name)
        detail["url"] = redacted_url(thing.url)
        detail["liveness_url"] = thing.liveness_url and redacted_url(thing.liveness_url)
    return detail
