"""Keeps memory and store in step: a change is on disk before it is seen."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from couriermq.catalog.memory import Memory, Thing
from couriermq.clock import Clock
from couriermq.core.events import Event, EventKind
from couriermq.core.model import Binding, Credential, Exchange, Json, Listener, Queue, Record, Tenant
from couriermq.storage.base import Store, StoredRecord

T = TypeVar("T", bound=Thing)

KINDS: dict[str, type[Thing]] = {
    "tenant": Tenant,
    "queue": Queue,
    "exchange": Exchange,
    "binding": Binding,
    "listener": Listener,
    "credential": Credential,
    "record": Record,
}


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

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._writing = _Turn(store)
        self._learners: dict[str, Learner] = {}

    async def _put(self, thing: T, kind: EventKind, principal: str, *with_it: Thing) -> T:
        """Write a thing and what belongs to it, as one event."""
        things = (*with_it, thing)
        await self._store.change_records(
            put=[_stored(one) for one in things], events=[self._event(kind, thing, principal)]
        )
        for one in things:
            self._remember(one)
        return thing

    async def _put_all(self, things: Sequence[tuple[Thing, EventKind]], principal: str) -> None:
        """Write things that have nothing to do with each other, each an event of its own, in one change."""
        if things:
            events = [self._event(kind, thing, principal) for thing, kind in things]
            await self._store.change_records(put=[_stored(thing) for thing, _ in things], events=events)
            for thing, _ in things:
                self._remember(thing)

    async def _drop(self, things: Sequence[Thing], kind: EventKind, principal: str) -> None:
        """Forget first: whoever is about to use the thing in the same commit must find it gone."""
        for thing in things:
            self._forget(thing)
        try:
            await self._store.change_records(
                delete=[_stored(thing) for thing in things], events=[self._event(kind, things[0], principal)]
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
            elif self._present(thing := read_stored(stored)) is not None:
                self._forget(thing)
        for stored in put:
            if stored.kind not in KINDS:
                self._pass_on(stored, True)
            elif self._present(thing := read_stored(stored)) != thing:
                self._remember(thing)

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

    def _event(self, kind: EventKind, thing: Thing, principal: str) -> Event:
        return Event(
            kind=kind,
            at=self._clock.now(),
            tenant=thing.id if isinstance(thing, Tenant) else thing.tenant,
            queue_id=thing.id if isinstance(thing, Queue | Exchange) else getattr(thing, "queue_id", None),
            queue=thing.name if isinstance(thing, Queue | Exchange) else None,
            principal=principal,
            detail=_detail(thing),
        )


def read_stored(stored: StoredRecord) -> Thing:
    return msgspec.msgpack.decode(stored.document, type=KINDS[stored.kind])


def _stored(thing: Thing) -> StoredRecord:
    return StoredRecord(
        kind=type(thing).__name__.lower(),
        tenant=thing.id if isinstance(thing, Tenant) else thing.tenant,
        id=_identity(thing),
        document=msgspec.msgpack.encode(thing),
        slot=f"{thing.tenant}/destination/{thing.name}" if isinstance(thing, Queue | Exchange) else None,
    )


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
    detail.pop("secrets", None)
    detail.get("settings", {}).pop("authorization", None)
    if isinstance(thing, Record):
        detail.pop("document")
    return detail
