"""Everything of the control plane, in memory: finding is a look into a dictionary."""

from collections import Counter
from collections.abc import Callable

from couriermq.core.consumers import consumer_of
from couriermq.core.errors import (
    AlreadyExists,
    BindingNotFound,
    CredentialNotFound,
    ExchangeNotFound,
    ListenerNotFound,
    QueueNotFound,
    QuotaExceeded,
    RecordNotFound,
    TenantNotFound,
)
from couriermq.core.hex_ids import hex_of, id_of
from couriermq.core.lifecycle.in_flight import gained
from couriermq.core.model import Binding, Credential, Exchange, Listener, Queue, Record, Tenant
from couriermq.core.quotas import Quotas, with_defaults

DEFAULT_TENANT = "default"
WORKER_RECORD = "worker"
"""The kind of record that says where a script runs; its id is the name of the script."""

Thing = Tenant | Queue | Exchange | Binding | Listener | Credential | Record


class Memory:
    """What there is. Another tenant's things do not exist for whoever asks."""

    def __init__(self, default_quotas: Quotas) -> None:
        self._default_quotas = default_quotas
        self._quotas: dict[str, Quotas] = {}  # by tenant, with the defaults filled in
        self._queue_counts: Counter[str] = Counter()  # by tenant: queues of callers, and exchanges
        self._listener_counts: Counter[str] = Counter()
        self._tenants: dict[str, Tenant] = {}
        self._aliases: dict[tuple[str, str], Tenant] = {}
        self._queues: dict[str, Queue] = {}
        self._queue_keys: dict[int, Queue] = {}
        self._queue_aliases: dict[tuple[str, str, str], Queue] = {}  # by tenant, dialect and alias
        self._tenant_digests: dict[str, Tenant] = {}
        self._exchanges: dict[str, Exchange] = {}
        self._names: dict[tuple[str, str], Queue | Exchange] = {}
        self._bindings: dict[str, dict[str, Binding]] = {}  # by exchange, then by queue
        self._listeners: dict[str, dict[str, Listener]] = {}  # by queue, then by id
        self._listeners_by_id: dict[str, Listener] = {}
        self._listener_watcher: Callable[[Listener, bool], None] | None = None
        self._consumer_watcher: Callable[[Queue, bool], None] | None = None
        self._queue_watcher: Callable[[int], None] | None = None
        self._limit_watcher: Callable[[int, int], None] | None = None
        self._credentials: dict[str, Credential] = {}
        self._secrets: dict[bytes, Credential] = {}
        self._records: dict[tuple[str, str, str], Record] = {}

    def tenant(self, tenant_id: str) -> Tenant:
        try:
            return self._tenants[tenant_id]
        except KeyError:
            raise TenantNotFound(tenant_id) from None

    def tenants(self) -> list[Tenant]:
        return sorted(self._tenants.values(), key=lambda tenant: tenant.id)

    def delivery_allow(self, tenant_id: str) -> tuple[str, ...]:
        """Networks that this tenant may deliver to beside those that every tenant may."""
        found = self._tenants.get(tenant_id)
        return found.delivery_allow if found else ()

    def quotas(self, tenant_id: str) -> Quotas:
        """The limits that hold for a tenant; those of one that is gone are the defaults."""
        return self._quotas.get(tenant_id, self._default_quotas)

    def queue_count(self, tenant_id: str) -> int:
        """How many queues and exchanges a tenant has, without the queues that belong to listeners."""
        return self._queue_counts[tenant_id]

    def listener_count(self, tenant_id: str) -> int:
        return self._listener_counts[tenant_id]

    def _check_quota(self, tenant_id: str, quota: str, count: int) -> None:
        """Refuse one more of something when there are `count` of it."""
        limit = getattr(self.quotas(tenant_id), quota)
        if limit is not None and count >= limit:
            raise QuotaExceeded(quota, limit)

    def tenant_of_alias(self, dialect: str, alias: str) -> Tenant:
        """The tenant that a dialect knows under this id: its alias there, else its own id or the digits of that."""
        found = self._aliases.get((dialect, alias)) or self._tenants.get(alias) or self._tenant_digests.get(alias)
        if found is None:
            raise TenantNotFound(alias)
        return found

    # A queue, an exchange or a listener is found by its id before its name. No name equals the id of another one: see
    # `_check_free`. Stores of an older Courier may hold such a name; there the id wins, too.

    def queue(self, tenant: str, name_or_id: str) -> Queue:
        """The tenant's queue of that id, else of that name; another tenant's queue does not exist."""
        found = self._find(tenant, name_or_id)
        if not isinstance(found, Queue):
            raise QueueNotFound(name_or_id)
        return found

    def _find(self, tenant: str, name_or_id: str) -> Queue | Exchange | None:
        """What a caller of the tenant calls by that id or name; queues that belong to listeners are not for callers."""
        found = self._queues.get(name_or_id) or self._exchanges.get(name_or_id)
        if found is None or found.tenant != tenant:
            found = self._names.get((tenant, name_or_id)) or self._of_hex(tenant, name_or_id)
        return None if isinstance(found, Queue) and found.owner is not None else found

    def _of_hex(self, tenant: str, digits: str) -> Queue | Exchange | None:
        """By the hex digits of its id, in which one of the dialects shows it."""
        thing_id = id_of(digits)
        found = None if thing_id is None else self._queues.get(thing_id) or self._exchanges.get(thing_id)
        return found if found is not None and found.tenant == tenant else None

    def queue_of_alias(self, tenant: str, dialect: str, alias: str) -> Queue | None:
        """The tenant's queue that a dialect also knows under this id."""
        return self._queue_aliases.get((tenant, dialect, alias))

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
        found = self._find(tenant, name_or_id)
        if found is None:
            raise QueueNotFound(name_or_id)
        return found

    def destination_of_id(self, thing_id: str) -> Queue | Exchange | None:
        """A queue or an exchange by its id; for a queue that belongs to a listener, the queue that this listens to."""
        found = self._queues.get(thing_id)
        if found is None or found.owner is None:
            return found or self._exchanges.get(thing_id)
        listener = self._listeners_by_id.get(found.owner)
        return self._queues.get(listener.queue_id) if listener is not None else None

    def dead_letter_sources(self, queue: Queue) -> list[Queue]:
        """The queues whose dead letters go to this one."""
        owned = self.queues(queue.tenant)
        return [q for q in owned if q.settings.dead_letter_queue == queue.id and q.id != queue.id]

    def exchange(self, tenant: str, name_or_id: str) -> Exchange:
        found = self._find(tenant, name_or_id)
        if not isinstance(found, Exchange):
            raise ExchangeNotFound(name_or_id)
        return found

    def exchanges(self, tenant: str, *, prefix: str = "") -> list[Exchange]:
        owned = (x for x in self._exchanges.values() if x.tenant == tenant and x.name.startswith(prefix))
        return sorted(owned, key=lambda exchange: exchange.name)

    def bindings_of(self, exchange: Exchange) -> list[Binding]:
        return list(self._bindings.get(exchange.id, {}).values())

    def bindings_to(self, queue: Queue) -> list[Binding]:
        return [bound[queue.id] for bound in self._bindings.values() if queue.id in bound]

    def binding(self, exchange: Exchange, queue: Queue) -> Binding:
        try:
            return self._bindings[exchange.id][queue.id]
        except KeyError:
            raise BindingNotFound(f"{exchange.name} to {queue.name}") from None

    def watch_deleted_queues(self, watcher: Callable[[int], None]) -> None:
        """Tell somebody the key of every queue that is deleted, here or by another node."""
        self._queue_watcher = watcher

    def watch_raised_limits(self, watcher: Callable[[int, int], None]) -> None:
        """Tell somebody the key of a queue of which more may be leased, and how much: its `max_leased` was raised, or
        it is no longer paused. Here or by another node."""
        self._limit_watcher = watcher

    def watch_listeners(self, watcher: Callable[[Listener, bool], None] | None) -> None:
        """Have every listener that is new, changed (True) or gone (False) told to whoever delivers to it."""
        self._listener_watcher = watcher

    def watch_consumers(self, watcher: Callable[[Queue, bool], None] | None) -> None:
        """Report every queue that is new, changed (True) or deleted (False), also when its Worker has moved."""
        self._consumer_watcher = watcher

    def has_listeners(self, queue: Queue) -> bool:
        return bool(self._listeners.get(queue.id))

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

    def credential(self, tenant: str, credential_id: str) -> Credential:
        found = self._credentials.get(credential_id)
        if found is None or found.tenant != tenant:
            raise CredentialNotFound(credential_id)
        return found

    def credential_of_id(self, credential_id: str) -> Credential | None:
        return self._credentials.get(credential_id)

    def credential_of_secret(self, secret_hash: bytes) -> Credential | None:
        """The credential that has this secret, or had it before it was rotated with an overlap."""
        return self._secrets.get(secret_hash)

    def credentials(self, tenant: str) -> list[Credential]:
        owned = (c for c in self._credentials.values() if c.tenant == tenant)
        return sorted(owned, key=lambda credential: (credential.created_at, credential.id))

    def record(self, kind: str, tenant: str, record_id: str) -> Record:
        try:
            return self._records[kind, tenant, record_id]
        except KeyError:
            raise RecordNotFound(record_id) from None

    def records(self, kind: str, tenant: str) -> list[Record]:
        found = (r for (k, t, _), r in self._records.items() if k == kind and t == tenant)
        return sorted(found, key=lambda record: (record.created_at, record.id))

    def _check_free(self, tenant: str, name: str) -> None:
        """A name must be nobody else's, and not be the id of anything of the tenant: that would take its address."""
        if (taken := self._names.get((tenant, name))) is not None:
            raise AlreadyExists(type(taken).__name__.lower(), name)
        same_id = self._queues.get(name) or self._exchanges.get(name) or self._listeners_by_id.get(name)
        same_id = same_id or self._of_hex(tenant, name)
        if same_id is not None and same_id.tenant == tenant:
            raise AlreadyExists(type(same_id).__name__.lower(), name, by="with the id")
        if any(alias == name and owner == tenant for owner, _, alias in self._queue_aliases):
            raise AlreadyExists("queue", name, by="with the alias")

    def _is_free_id(self, tenant: str, thing_id: str) -> bool:
        """Whether an id is nothing's id, and not a name of the tenant either."""
        known = (self._queues, self._exchanges, self._listeners_by_id)
        names = (listener.name for group in self._listeners.values() for listener in group.values())
        return (
            not any(thing_id in things for things in known)
            and (tenant, thing_id) not in self._names
            and thing_id not in names
        )

    def _check_listener_name(self, queue: Queue, name: str, *, of: str | None = None) -> None:
        """The same for a listener among those of its queue; `of` is its own id."""
        if any(name in (one.name, one.id) for one in self.listeners_of(queue) if one.id != of):
            raise AlreadyExists("listener", name)

    def _with_queues(self, listener: Listener) -> list[Thing]:
        return [listener, self.outbox(listener), self.dead_letters(listener)]

    # -- remembering and forgetting ---------------------------------------------------------------------------

    def _present(self, thing: Thing) -> Thing | None:
        """The same thing as it is known now, if it is."""
        match thing:
            case Tenant():
                return self._tenants.get(thing.id)
            case Queue():
                return self._queues.get(thing.id)
            case Exchange():
                return self._exchanges.get(thing.id)
            case Binding():
                return self._bindings.get(thing.exchange_id, {}).get(thing.queue_id)
            case Listener():
                return self._listeners.get(thing.queue_id, {}).get(thing.id)
            case Credential():
                return self._credentials.get(thing.id)
            case Record():
                return self._records.get((thing.kind, thing.tenant, thing.id))

    def _remember(self, thing: Thing) -> None:
        match thing:
            case Tenant():
                self._forget_aliases(thing.id)
                self._tenants[thing.id] = self._tenant_digests[hex_of(thing.id)] = thing
                self._quotas[thing.id] = with_defaults(thing.quotas, self._default_quotas)
                self._aliases.update(dict.fromkeys(thing.aliases.items(), thing))
            case Queue():
                if old := self._queues.get(thing.id):
                    self._forget_names(old)
                elif thing.owner is None:
                    self._queue_counts[thing.tenant] += 1
                for alias in thing.aliases.items():
                    self._queue_aliases[thing.tenant, *alias] = thing
                self._queues[thing.id] = self._queue_keys[thing.key] = thing
                self._names[thing.tenant, thing.name] = thing
                if old and self._limit_watcher is not None and (count := gained(old.settings, thing.settings)):
                    self._limit_watcher(thing.key, count)
                if self._listener_watcher is not None:
                    for listener in self._listeners.get(thing.id, {}).values():
                        self._listener_watcher(listener, True)  # what its queue is set to counts for it too
                self._tell_consumer(thing, True)
            case Exchange():
                self._queue_counts[thing.tenant] += thing.id not in self._exchanges
                self._exchanges[thing.id] = self._names[thing.tenant, thing.name] = thing
            case Binding():
                self._bindings.setdefault(thing.exchange_id, {})[thing.queue_id] = thing
            case Listener():
                self._listener_counts[thing.tenant] += thing.id not in self._listeners_by_id
                self._listeners.setdefault(thing.queue_id, {})[thing.id] = self._listeners_by_id[thing.id] = thing
                if self._listener_watcher is not None:
                    self._listener_watcher(thing, True)
            case Credential():
                if known := self._credentials.get(thing.id):
                    self._forget_secrets(known)
                self._credentials[thing.id] = thing
                self._secrets.update(dict.fromkeys(thing.secret_hashes(0), thing))
            case Record():
                self._records[thing.kind, thing.tenant, thing.id] = thing
                self._tell_consumers_of(thing)

    def _forget(self, thing: Thing) -> None:
        match thing:
            case Tenant():
                self._forget_aliases(thing.id)
                del self._tenants[thing.id], self._tenant_digests[hex_of(thing.id)], self._quotas[thing.id]
                self._queue_counts.pop(thing.id, None)
                self._listener_counts.pop(thing.id, None)
            case Queue():
                if thing.owner is None:
                    self._queue_counts[thing.tenant] -= 1
                self._forget_names(self._queues[thing.id])
                del self._queues[thing.id], self._queue_keys[thing.key]
                self._tell_consumer(thing, False)
                if self._queue_watcher is not None:
                    self._queue_watcher(thing.key)
            case Exchange():
                self._queue_counts[thing.tenant] -= 1
                self._forget_names(thing)
                del self._exchanges[thing.id]
            case Binding():
                del self._bindings[thing.exchange_id][thing.queue_id]
            case Listener():
                self._listener_counts[thing.tenant] -= 1
                del self._listeners[thing.queue_id][thing.id], self._listeners_by_id[thing.id]
                if self._listener_watcher is not None:
                    self._listener_watcher(thing, False)
            case Credential():
                self._forget_secrets(self._credentials.pop(thing.id))
            case Record():
                del self._records[thing.kind, thing.tenant, thing.id]
                self._tell_consumers_of(thing)

    def _tell_consumer(self, queue: Queue, present: bool) -> None:
        if self._consumer_watcher is not None and queue.owner is None:
            self._consumer_watcher(queue, present)

    def _tell_consumers_of(self, record: Record) -> None:
        """A Worker was attached, moved or detached: its queues are served elsewhere from now on."""
        if self._consumer_watcher is not None and record.kind == WORKER_RECORD:
            for queue in self.queues(record.tenant):
                if (consumer := consumer_of(queue)) is not None and consumer.script_name == record.id:
                    self._consumer_watcher(queue, True)

    def _forget_secrets(self, credential: Credential) -> None:
        for secret_hash in credential.secret_hashes(0):
            self._secrets.pop(secret_hash, None)

    def _forget_names(self, thing: Queue | Exchange) -> None:
        """Its name and its aliases, but for those that lead to something else by now: changes are learned out of
        order."""
        if (named := self._names.get((thing.tenant, thing.name))) is not None and named.id == thing.id:
            del self._names[thing.tenant, thing.name]
        for alias in thing.aliases.items() if isinstance(thing, Queue) else ():
            key = (thing.tenant, *alias)
            if (known := self._queue_aliases.get(key)) is not None and known.id == thing.id:
                del self._queue_aliases[key]

    def _forget_aliases(self, tenant_id: str) -> None:
        for key in [key for key, tenant in self._aliases.items() if tenant.id == tenant_id]:
            del self._aliases[key]
