"""The control plane: tenants, queues, exchanges, bindings, credentials, and what dialects keep beside them.

All of it is small and read on every request, so it lives in memory; a change is on disk before it is seen.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from courier.clock import Clock, mint_id
from courier.core import limits
from courier.core.errors import (
    AlreadyExists,
    BindingNotFound,
    CredentialNotFound,
    DeadLetterCycle,
    ExchangeNotFound,
    InUse,
    Invalid,
    ListenerNotFound,
    QueueNotFound,
    RecordNotFound,
    TenantNotFound,
)
from courier.core.events import Event, EventKind
from courier.core.model import (
    Action,
    Binding,
    Credential,
    Exchange,
    Json,
    Kind,
    Listener,
    ListenerSettings,
    Queue,
    QueueSettings,
    Record,
    Rule,
    Scope,
    Tenant,
)
from courier.core.routing import check_rule
from courier.storage.base import Store, StoredRecord

DEFAULT_TENANT = "default"
LEASE_MARGIN_MS = 5_000
SECRET_BYTES = 48  # 64 characters of base64url, as the strictest dialect wants its keys

Thing = Tenant | Queue | Exchange | Binding | Listener | Credential | Record
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


class Catalog:
    """Finds and changes things by tenant. `principal` says who asks, for the journal."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._writing = asyncio.Lock()
        self._tenants: dict[str, Tenant] = {}
        self._aliases: dict[tuple[str, str], Tenant] = {}
        self._queues: dict[str, Queue] = {}
        self._queue_keys: dict[int, Queue] = {}
        self._exchanges: dict[str, Exchange] = {}
        self._names: dict[tuple[str, str], Queue | Exchange] = {}
        self._bindings: dict[str, dict[str, Binding]] = {}  # by exchange, then by queue
        self._listeners: dict[str, dict[str, Listener]] = {}  # by queue, then by id
        self._credentials: dict[str, Credential] = {}
        self._secrets: dict[bytes, Credential] = {}
        self._records: dict[tuple[str, str, str], Record] = {}

    async def load(self) -> None:
        """Read everything from the store; a new store gets its default tenant."""
        for stored in await self._store.load_records():
            self._remember(msgspec.msgpack.decode(stored.document, type=KINDS[stored.kind]))
        if DEFAULT_TENANT not in self._tenants:
            await self.create_tenant(DEFAULT_TENANT, principal="courier")

    # -- tenants ----------------------------------------------------------------------------------------------

    def tenant(self, tenant_id: str) -> Tenant:
        try:
            return self._tenants[tenant_id]
        except KeyError:
            raise TenantNotFound(tenant_id) from None

    def tenants(self) -> list[Tenant]:
        return sorted(self._tenants.values(), key=lambda tenant: tenant.id)

    def tenant_of_alias(self, dialect: str, alias: str) -> Tenant:
        """The tenant that a dialect knows under this id: its alias there, else its own id."""
        found = self._aliases.get((dialect, alias)) or self._tenants.get(alias)
        if found is None:
            raise TenantNotFound(alias)
        return found

    async def create_tenant(self, tenant_id: str, *, aliases: dict[str, str] | None = None, principal: str) -> Tenant:
        limits.check_tenant(tenant_id)
        async with self._writing:
            if tenant_id in self._tenants:
                raise AlreadyExists("tenant", tenant_id)
            tenant = Tenant(id=tenant_id, created_at=self._clock.now(), aliases=aliases or {})
            self._check_aliases(tenant)
            return await self._put(tenant, EventKind.TENANT_ADDED, principal)

    async def change_tenant(self, tenant_id: str, *, aliases: dict[str, str], principal: str) -> Tenant:
        async with self._writing:
            tenant = msgspec.structs.replace(self.tenant(tenant_id), aliases=aliases)
            self._check_aliases(tenant)
            return await self._put(tenant, EventKind.TENANT_CHANGED, principal)

    async def delete_tenant(self, tenant_id: str, *, principal: str) -> None:
        """Remove a tenant that owns nothing any more, with its credentials and records."""
        async with self._writing:
            tenant = self.tenant(tenant_id)
            if tenant_id == DEFAULT_TENANT:
                raise Invalid("the default tenant cannot be deleted", field="tenant")
            if owned := self.queues(tenant_id) or self.exchanges(tenant_id):
                raise InUse(tenant_id, f"{owned[0].name!r}")
            records = [record for record in self._records.values() if record.tenant == tenant_id]
            await self._drop([tenant, *self.credentials(tenant_id), *records], EventKind.TENANT_DELETED, principal)

    def _check_aliases(self, tenant: Tenant) -> None:
        for dialect, alias in tenant.aliases.items():
            owner = self._aliases.get((dialect, alias)) or self._tenants.get(alias)
            if owner is not None and owner.id != tenant.id:
                raise AlreadyExists(f"{dialect} tenant", alias)

    # -- queues -----------------------------------------------------------------------------------------------

    def queue(self, tenant: str, name_or_id: str) -> Queue:
        """The tenant's queue of that name, else of that id; another tenant's queue does not exist."""
        found = self._names.get((tenant, name_or_id)) or self._queues.get(name_or_id)
        if not isinstance(found, Queue) or found.tenant != tenant or found.owner is not None:
            raise QueueNotFound(name_or_id)
        return found

    def queue_by_id(self, tenant: str, queue_id: str) -> Queue:
        found = self._queues.get(queue_id)
        if found is None or found.tenant != tenant:
            raise QueueNotFound(queue_id)
        return found

    def queue_of_id(self, queue_id: str) -> Queue | None:
        return self._queues.get(queue_id)

    def queue_of_key(self, key: int) -> Queue | None:
        return self._queue_keys.get(key)

    def queues(self, tenant: str, *, prefix: str = "") -> list[Queue]:
        """The tenant's queues by name; those that belong to listeners are not among them."""
        owned = (
            q for q in self._queues.values() if q.tenant == tenant and q.owner is None and q.name.startswith(prefix)
        )
        return sorted(owned, key=lambda queue: queue.name)

    def all_queues(self) -> list[Queue]:
        return list(self._queues.values())

    def destination(self, tenant: str, name_or_id: str) -> Queue | Exchange:
        """Queues and exchanges share their names; raises QueueNotFound when it is neither."""
        found = self._names.get((tenant, name_or_id)) or self._queues.get(name_or_id) or self._exchanges.get(name_or_id)
        if found is None or found.tenant != tenant or (isinstance(found, Queue) and found.owner is not None):
            raise QueueNotFound(name_or_id)
        return found

    async def create_queue(
        self,
        tenant: str,
        name: str,
        *,
        kind: Kind = Kind.STANDARD,
        settings: QueueSettings | None = None,
        annotations: dict[str, Json] | None = None,
        principal: str,
    ) -> Queue:
        """Raises AlreadyExists when the tenant has a queue or an exchange of that name."""
        limits.check_name(name)
        async with self._writing:
            self.tenant(tenant)
            self._check_free(tenant, name, "queue")
            queue = await self._new_queue(
                tenant, name, kind=kind, settings=settings or QueueSettings(), annotations=annotations or {}
            )
            self._check_queue(queue)
            return await self._put(queue, EventKind.QUEUE_ADDED, principal)

    async def _new_queue(self, tenant: str, name: str, **facts: Any) -> Queue:
        key, now = await self._store.next_key(), self._clock.now()
        return Queue(
            key=key, id=mint_id(self._clock), tenant=tenant, name=name, **facts, created_at=now, changed_at=now
        )

    async def change_queue(
        self,
        queue: Queue,
        *,
        name: str | None = None,
        settings: QueueSettings | Callable[[QueueSettings], QueueSettings] | None = None,
        annotations: dict[str, Json] | None = None,
        principal: str,
    ) -> Queue:
        """Replace what is given and keep the rest; a queue's kind is for life.

        Settings given as a function are made from those that stand when it is this change's turn.
        """
        async with self._writing:
            queue = self.queue_by_id(queue.tenant, queue.id)
            if name is not None and name != queue.name:
                limits.check_name(name)
                self._check_free(queue.tenant, name, "queue")
            changed = msgspec.structs.replace(
                queue,
                name=name or queue.name,
                settings=settings(queue.settings) if callable(settings) else settings or queue.settings,
                annotations=queue.annotations if annotations is None else annotations,
                changed_at=self._clock.now(),
            )
            self._check_queue(changed)
            return await self._put(changed, EventKind.QUEUE_CHANGED, principal)

    async def delete_queue(self, queue: Queue, *, principal: str) -> None:
        """Remove a queue, its bindings and, with time, its messages; raises InUse while it takes dead letters."""
        async with self._writing:
            queue = self.queue_by_id(queue.tenant, queue.id)
            if sources := self.dead_letter_sources(queue):
                raise InUse(queue.name, f"the dead letters of queue {sources[0].name!r}")
            listening = [thing for listener in self.listeners_of(queue) for thing in self._with_queues(listener)]
            await self._drop([queue, *self.bindings_to(queue), *listening], EventKind.QUEUE_DELETED, principal)

    def dead_letter_sources(self, queue: Queue) -> list[Queue]:
        """The queues whose dead letters go to this one."""
        owned = self.queues(queue.tenant)
        return [q for q in owned if q.settings.dead_letter_queue == queue.id and q.id != queue.id]

    def _check_queue(self, queue: Queue) -> None:
        limits.check_settings(queue.settings)
        target_id, seen = queue.settings.dead_letter_queue, {queue.id}
        while target_id is not None:
            if target_id in seen:
                raise DeadLetterCycle(queue.name)
            seen.add(target_id)
            target = self._queues.get(target_id)
            if target is None or target.tenant != queue.tenant:
                raise QueueNotFound(target_id)
            target_id = target.settings.dead_letter_queue

    def _check_free(self, tenant: str, name: str, noun: str) -> None:
        if (tenant, name) in self._names:
            raise AlreadyExists(noun, name)

    # -- exchanges and bindings -------------------------------------------------------------------------------

    def exchange(self, tenant: str, name_or_id: str) -> Exchange:
        found = self._names.get((tenant, name_or_id)) or self._exchanges.get(name_or_id)
        if not isinstance(found, Exchange) or found.tenant != tenant:
            raise ExchangeNotFound(name_or_id)
        return found

    def exchanges(self, tenant: str, *, prefix: str = "") -> list[Exchange]:
        owned = (x for x in self._exchanges.values() if x.tenant == tenant and x.name.startswith(prefix))
        return sorted(owned, key=lambda exchange: exchange.name)

    async def create_exchange(
        self, tenant: str, name: str, *, annotations: dict[str, Json] | None = None, principal: str
    ) -> Exchange:
        limits.check_name(name)
        async with self._writing:
            self.tenant(tenant)
            self._check_free(tenant, name, "exchange")
            now = self._clock.now()
            exchange = Exchange(
                id=mint_id(self._clock),
                tenant=tenant,
                name=name,
                annotations=annotations or {},
                created_at=now,
                changed_at=now,
            )
            return await self._put(exchange, EventKind.EXCHANGE_ADDED, principal)

    async def change_exchange(self, exchange: Exchange, *, annotations: dict[str, Json], principal: str) -> Exchange:
        async with self._writing:
            exchange = self.exchange(exchange.tenant, exchange.id)
            changed = msgspec.structs.replace(exchange, annotations=annotations, changed_at=self._clock.now())
            return await self._put(changed, EventKind.EXCHANGE_CHANGED, principal)

    async def delete_exchange(self, exchange: Exchange, *, principal: str) -> None:
        """Remove an exchange and its bindings."""
        async with self._writing:
            exchange = self.exchange(exchange.tenant, exchange.id)
            await self._drop([exchange, *self.bindings_of(exchange)], EventKind.EXCHANGE_DELETED, principal)

    def bindings_of(self, exchange: Exchange) -> list[Binding]:
        return list(self._bindings.get(exchange.id, {}).values())

    def bindings_to(self, queue: Queue) -> list[Binding]:
        return [bound[queue.id] for bound in self._bindings.values() if queue.id in bound]

    def binding(self, exchange: Exchange, queue: Queue) -> Binding:
        try:
            return self._bindings[exchange.id][queue.id]
        except KeyError:
            raise BindingNotFound(f"{exchange.name} to {queue.name}") from None

    async def bind(self, exchange: Exchange, queue: Queue, *, rules: Sequence[Rule] = (), principal: str) -> Binding:
        """Bind a queue to an exchange, or replace the rules of a binding that is there."""
        for rule in rules:
            check_rule(rule)
        async with self._writing:
            exchange, queue = self.exchange(exchange.tenant, exchange.id), self.queue_by_id(exchange.tenant, queue.id)
            old, now = self._bindings.get(exchange.id, {}).get(queue.id), self._clock.now()
            binding = Binding(
                tenant=exchange.tenant,
                exchange_id=exchange.id,
                queue_id=queue.id,
                rules=tuple(rules),
                created_at=old.created_at if old else now,
                changed_at=now,
            )
            return await self._put(binding, EventKind.BINDING_CHANGED if old else EventKind.BINDING_ADDED, principal)

    async def unbind(self, exchange: Exchange, queue: Queue, *, principal: str) -> None:
        async with self._writing:
            await self._drop([self.binding(exchange, queue)], EventKind.BINDING_DELETED, principal)

    # -- listeners --------------------------------------------------------------------------------------------

    def listeners_of(self, queue: Queue) -> list[Listener]:
        """The listeners of a queue, oldest first."""
        return list(self._listeners.get(queue.id, {}).values())

    def listeners(self, tenant: str | None = None) -> list[Listener]:
        """Every listener of a tenant, or of all of them."""
        every = (listener for group in self._listeners.values() for listener in group.values())
        return [listener for listener in every if tenant is None or listener.tenant == tenant]

    def listener(self, queue: Queue, name_or_id: str) -> Listener:
        group = self._listeners.get(queue.id, {})
        found = group.get(name_or_id) or next((one for one in group.values() if one.name == name_or_id), None)
        if found is None:
            raise ListenerNotFound(name_or_id)
        return found

    def outbox(self, listener: Listener) -> Queue:
        """The queue in which messages wait for their delivery."""
        return self.queue_by_id(listener.tenant, listener.outbox_id)

    def dead_letters(self, listener: Listener) -> Queue:
        """The queue of messages whose delivery was given up."""
        return self.queue_by_id(listener.tenant, listener.dead_letters_id)

    async def create_listener(
        self,
        queue: Queue,
        name: str,
        url: str,
        *,
        settings: ListenerSettings | None = None,
        principal: str,
        **facts: Any,
    ) -> Listener:
        """A listener with the two queues that it needs; `facts` are further fields of Listener."""
        settings = settings or ListenerSettings()
        self._check_listener(settings)
        async with self._writing:
            queue = self.queue_by_id(queue.tenant, queue.id)
            if any(listener.name == name for listener in self.listeners_of(queue)):
                raise AlreadyExists("listener", name)
            listener_id, now = mint_id(self._clock), self._clock.now()
            dead = await self._new_queue(queue.tenant, f"~{listener_id}/dead", owner=listener_id)
            outbox = await self._new_queue(
                queue.tenant,
                f"~{listener_id}",
                owner=listener_id,
                kind=Kind.FIFO if settings.ordered else Kind.STANDARD,
                settings=_outbox_settings(QueueSettings(dead_letter_queue=dead.id), settings),
            )
            listener = Listener(
                id=listener_id,
                tenant=queue.tenant,
                queue_id=queue.id,
                name=name,
                url=url,
                outbox_id=outbox.id,
                dead_letters_id=dead.id,
                settings=settings,
                created_at=now,
                changed_at=now,
                **facts,
            )
            return await self._put(listener, EventKind.LISTENER_ADDED, principal, dead, outbox)

    async def change_listener(self, listener: Listener, *, principal: str, **changes: Any) -> Listener:
        """Change name, url, liveness_url, state, reason, secrets, settings or annotations."""
        async with self._writing:
            queue = self.queue_by_id(listener.tenant, listener.queue_id)
            listener = self.listener(queue, listener.id)
            changed = msgspec.structs.replace(listener, **changes, changed_at=self._clock.now())
            if any(one.name == changed.name and one.id != changed.id for one in self.listeners_of(queue)):
                raise AlreadyExists("listener", changed.name)
            self._check_listener(changed.settings)
            if changed.settings.ordered != listener.settings.ordered:
                raise Invalid("whether deliveries are ordered is decided when a listener is made", field="ordered")
            outbox = self.outbox(listener)
            outbox = msgspec.structs.replace(outbox, settings=_outbox_settings(outbox.settings, changed.settings))
            return await self._put(changed, EventKind.LISTENER_CHANGED, principal, outbox)

    async def delete_listener(self, listener: Listener, *, principal: str) -> None:
        """Remove a listener with all that waits for it."""
        async with self._writing:
            listener = self.listener(self.queue_by_id(listener.tenant, listener.queue_id), listener.id)
            await self._drop(self._with_queues(listener), EventKind.LISTENER_DELETED, principal)

    def _with_queues(self, listener: Listener) -> list[Thing]:
        return [listener, self.outbox(listener), self.dead_letters(listener)]

    def _check_listener(self, settings: ListenerSettings) -> None:
        for rule in settings.rules:
            check_rule(rule)

    # -- credentials ------------------------------------------------------------------------------------------

    def credential(self, tenant: str, credential_id: str) -> Credential:
        found = self._credentials.get(credential_id)
        if found is None or found.tenant != tenant:
            raise CredentialNotFound(credential_id)
        return found

    def credential_of_id(self, credential_id: str) -> Credential | None:
        return self._credentials.get(credential_id)

    def credential_of_secret(self, secret_hash: bytes) -> Credential | None:
        return self._secrets.get(secret_hash)

    def credentials(self, tenant: str) -> list[Credential]:
        owned = (c for c in self._credentials.values() if c.tenant == tenant)
        return sorted(owned, key=lambda credential: (credential.created_at, credential.id))

    async def create_credential(
        self,
        tenant: str,
        name: str,
        *,
        scopes: Sequence[Scope] | None = None,
        expires_at: int | None = None,
        requests_per_second: float | None = None,
        annotations: dict[str, Json] | None = None,
        principal: str,
    ) -> tuple[Credential, str]:
        """A new credential and its secret, which nobody can ask for again."""
        secret = self._mint_secret()
        async with self._writing:
            self.tenant(tenant)
            now = self._clock.now()
            credential = Credential(
                id=mint_id(self._clock),
                tenant=tenant,
                name=name,
                secret_hash=hash_secret(secret),
                scopes=tuple(scopes) if scopes is not None else tuple(Scope(action) for action in Action),
                expires_at=expires_at,
                requests_per_second=requests_per_second,
                annotations=annotations or {},
                created_at=now,
                changed_at=now,
            )
            return await self._put(credential, EventKind.CREDENTIAL_ADDED, principal), secret

    async def change_credential(self, credential: Credential, *, principal: str, **changes: Any) -> Credential:
        """Change name, scopes, enabled, expires_at, requests_per_second or annotations."""
        async with self._writing:
            credential = self.credential(credential.tenant, credential.id)
            changed = msgspec.structs.replace(credential, **changes, changed_at=self._clock.now())
            return await self._put(changed, EventKind.CREDENTIAL_CHANGED, principal)

    async def rotate_credential(self, credential: Credential, *, principal: str) -> tuple[Credential, str]:
        """Give the credential a new secret; the old one is refused from now on."""
        secret = self._mint_secret()
        changed = await self.change_credential(credential, secret_hash=hash_secret(secret), principal=principal)
        return changed, secret

    async def delete_credential(self, credential: Credential, *, principal: str) -> None:
        async with self._writing:
            credential = self.credential(credential.tenant, credential.id)
            await self._drop([credential], EventKind.CREDENTIAL_DELETED, principal)

    def _mint_secret(self) -> str:
        return msgspec.json.encode(self._clock.random_bytes(SECRET_BYTES)).decode().strip('"').translate(_URL_SAFE)

    # -- records of dialects ----------------------------------------------------------------------------------

    def record(self, kind: str, tenant: str, record_id: str) -> Record:
        try:
            return self._records[kind, tenant, record_id]
        except KeyError:
            raise RecordNotFound(record_id) from None

    def records(self, kind: str, tenant: str) -> list[Record]:
        found = (r for (k, t, _), r in self._records.items() if k == kind and t == tenant)
        return sorted(found, key=lambda record: (record.created_at, record.id))

    async def put_record(
        self, kind: str, tenant: str, document: Json, *, record_id: str | None = None, principal: str
    ) -> Record:
        """Keep a document for a dialect, new or in place of the one with this id."""
        async with self._writing:
            self.tenant(tenant)
            record_id, now = record_id or mint_id(self._clock), self._clock.now()
            old = self._records.get((kind, tenant, record_id))
            record = Record(
                kind=kind,
                tenant=tenant,
                id=record_id,
                document=document,
                created_at=old.created_at if old else now,
                changed_at=now,
            )
            return await self._put(record, EventKind.RECORD_CHANGED if old else EventKind.RECORD_ADDED, principal)

    async def delete_record(self, kind: str, tenant: str, record_id: str, *, principal: str) -> None:
        async with self._writing:
            await self._drop([self.record(kind, tenant, record_id)], EventKind.RECORD_DELETED, principal)

    # -- keeping memory and store in step ---------------------------------------------------------------------

    async def _put(self, thing: T, kind: EventKind, principal: str, *with_it: Thing) -> T:
        """Write a thing and what belongs to it, as one event."""
        things = (*with_it, thing)
        await self._store.change_records(
            put=[_stored(one) for one in things], events=[self._event(kind, thing, principal)]
        )
        for one in things:
            self._remember(one)
        return thing

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

    def _remember(self, thing: Thing) -> None:
        match thing:
            case Tenant():
                self._forget_aliases(thing.id)
                self._tenants[thing.id] = thing
                self._aliases.update(dict.fromkeys(thing.aliases.items(), thing))
            case Queue():
                if old := self._queues.get(thing.id):
                    self._names.pop((old.tenant, old.name), None)
                self._queues[thing.id] = self._queue_keys[thing.key] = thing
                self._names[thing.tenant, thing.name] = thing
            case Exchange():
                self._exchanges[thing.id] = self._names[thing.tenant, thing.name] = thing
            case Binding():
                self._bindings.setdefault(thing.exchange_id, {})[thing.queue_id] = thing
            case Listener():
                self._listeners.setdefault(thing.queue_id, {})[thing.id] = thing
            case Credential():
                if known := self._credentials.get(thing.id):
                    self._secrets.pop(known.secret_hash, None)
                self._credentials[thing.id] = self._secrets[thing.secret_hash] = thing
            case Record():
                self._records[thing.kind, thing.tenant, thing.id] = thing

    def _forget(self, thing: Thing) -> None:
        match thing:
            case Tenant():
                self._forget_aliases(thing.id)
                del self._tenants[thing.id]
            case Queue():
                del self._queues[thing.id], self._queue_keys[thing.key], self._names[thing.tenant, thing.name]
            case Exchange():
                del self._exchanges[thing.id], self._names[thing.tenant, thing.name]
            case Binding():
                del self._bindings[thing.exchange_id][thing.queue_id]
            case Listener():
                del self._listeners[thing.queue_id][thing.id]
            case Credential():
                del self._credentials[thing.id], self._secrets[thing.secret_hash]
            case Record():
                del self._records[thing.kind, thing.tenant, thing.id]

    def _forget_aliases(self, tenant_id: str) -> None:
        for key in [key for key, tenant in self._aliases.items() if tenant.id == tenant_id]:
            del self._aliases[key]


_URL_SAFE = str.maketrans("+/", "-_")


def hash_secret(secret: str) -> bytes:
    """How a secret is kept: it has 384 random bits, so one round is as good as many."""
    return hashlib.sha256(secret.encode()).digest()


def _outbox_settings(present: QueueSettings, listener: ListenerSettings) -> QueueSettings:
    """A delivery's lease outlasts its request, and it has one attempt more than the schedule has waits."""
    return msgspec.structs.replace(
        present,
        lease_ms=listener.timeout_ms + LEASE_MARGIN_MS,
        max_attempts=len(listener.schedule_ms) + 1,
        retention_ms=limits.RETENTION_MS,
        max_body_bytes=limits.BODY_BYTES,
        archive_bodies=False,
    )


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
