"""Every noun of Courier in one place.

`_at` is an instant in epoch milliseconds, `_ms` a duration, `_count` a number of things.
A live message is delayed, ready or leased; acked, dead and discarded are where its life in a queue ends:

    send ──> delayed ──> ready ──> leased ──> acked
                           ^          │
                           └──────────┴────> dead (moved to the dead letter queue) | discarded
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Any

import msgspec

from couriermq.core.quotas import Quotas

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

DEDUP_MS = 5 * MINUTE
"""How long a FIFO queue remembers the id of a message that it has taken."""

UNENDING = 253_402_300_799_999
"""When the lease of a claimed message ends: at the end of the year 9999."""

Attribute = str | int | float | bool
Attributes = Mapping[str, Attribute]
Json = Any


class Kind(StrEnum):
    """What order a queue keeps."""

    STANDARD = "standard"
    FIFO = "fifo"


class State(IntEnum):
    """Where a live message is. The numbers are stored; never renumber."""

    DELAYED = 0
    READY = 1
    LEASED = 2


class LateAck(StrEnum):
    """What an ack means once its lease has ended but the message still exists; and a release, as long as nobody else
    holds the message."""

    REFUSE = "refuse"
    ACCEPT = "accept"


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """Who owns queues. `aliases` holds the ids under which a dialect knows the tenant, by dialect name."""

    id: str
    created_at: int
    aliases: dict[str, str] = {}
    delivery_allow: tuple[str, ...] = ()
    """Networks that its listeners may be in, beside those that the server's setting allows to everybody."""
    quotas: Quotas = Quotas()


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a queue's owner may change at any time."""

    delay_ms: int = 0
    lease_ms: int = 30 * SECOND
    retention_ms: int = 4 * DAY
    max_attempts: int | None = None
    """Leases before a message is dead; None means that it may fail for ever."""
    max_leased: int | None = None
    """Messages that may be leased at the same time; None means that there is no limit."""
    retry_delay_ms: int = 0
    dead_letter_queue: str | None = None
    """The id of another queue of the same tenant."""
    paused: bool = False
    """A paused queue takes messages and gives none."""
    max_body_bytes: int = 10 * 1024 * 1024
    late_ack: LateAck = LateAck.REFUSE
    archive_bodies: bool = True
    """Whether the journal keeps bodies and attributes of sent messages."""
    keep_delivered: bool = True
    """Whether a message stays for those who receive it after every listener has got it."""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """`key` names the queue inside the store and in receipts; it is never used again after a delete.

    `annotations` are a dialect's own facts about the queue, under keys such as `cloudflare.consumer`. `aliases` holds
    other ids under which a dialect finds the queue, by dialect name.
    """

    key: int
    id: str
    tenant: str
    name: str
    kind: Kind = Kind.STANDARD
    settings: QueueSettings = QueueSettings()
    annotations: dict[str, Json] = {}
    aliases: dict[str, str] = {}
    owner: str | None = None
    """The id of the listener that the queue belongs to; such a queue is not for callers."""
    created_at: int = 0
    changed_at: int = 0


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A name that messages are sent to and that copies them to the queues bound to it."""

    id: str
    tenant: str
    name: str
    annotations: dict[str, Json] = {}
    created_at: int = 0
    changed_at: int = 0


class Matcher(StrEnum):
    EQ = "eq"
    PREFIX = "prefix"
    ANY_OF = "any_of"
    NONE_OF = "none_of"
    EXISTS = "exists"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    RANGE = "range"


class RuleType(StrEnum):
    STRING = "string"
    NUMERIC = "numeric"


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One condition on one attribute; see `core.routing` for what each matcher takes."""

    attribute: str
    type: RuleType
    matcher: Matcher
    value: str | float | bool | list[str | float]


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """Exchange to queue. All rules must hold; no rule means every message."""

    tenant: str
    exchange_id: str
    queue_id: str
    rules: tuple[Rule, ...] = ()
    created_at: int = 0
    changed_at: int = 0


class ListenerState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    """Its owner has stopped it; what is sent waits."""
    DISABLED = "disabled"
    """Courier has stopped it, for the reason given; what is sent waits."""


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """What deliveries are signed with: `whsec_…` (HMAC) or `whsk_…` (ed25519); an old one until it expires."""

    value: str
    created_at: int
    expires_at: int | None = None


class ListenerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How deliveries to a listener are made."""

    schedule_ms: tuple[int, ...] = (5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR)
    """The wait after each failed attempt; when it is used up, the message is a dead letter of the listener."""
    jitter: float = 0.2
    timeout_ms: int = 15 * SECOND
    concurrency: int = 8
    requests_per_second: float | None = None
    ordered: bool = False
    """One at a time, in the order of sending."""
    rules: tuple[Rule, ...] = ()
    """Which messages it gets: conditions on attributes, or on the JSON body where the name starts with `$.`."""
    headers: dict[str, str] = {}
    authorization: dict[str, str] | None = None
    """Towards the receiver: {"type": "bearer" | "basic" | "oauth", …}."""
    cloudevents: bool = False


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """A URL that a queue's messages are delivered to. Each message waits for it in a queue of its own, `outbox_id`,
    and ends in `dead_letters_id` when the schedule is used up: a delivery is a lease, its verdict an ack or a release.
    """

    id: str
    tenant: str
    queue_id: str
    name: str
    url: str
    outbox_id: str
    dead_letters_id: str
    liveness_url: str | None = None
    state: ListenerState = ListenerState.ACTIVE
    reason: str | None = None
    """Why it is disabled."""
    secrets: tuple[Secret, ...] = ()
    """Newest first."""
    settings: ListenerSettings = ListenerSettings()
    annotations: dict[str, Json] = {}
    created_at: int = 0
    changed_at: int = 0


class Draft(msgspec.Struct, kw_only=True, gc=False):
    """A message as its sender describes it; None means that the queue decides."""

    body: bytes
    content_type: str = "application/octet-stream"
    attributes: dict[str, Attribute] = {}
    id: str | None = None
    delay_ms: int | None = None
    retention_ms: int | None = None
    group: str | None = None
    dedup_id: str | None = None
    trace: str | None = None
    """A W3C `traceparent`, carried from send to receive."""
    minted: bool = False
    """Whether Courier has made the id, so that no other message has it."""


class Parcel(msgspec.Struct, frozen=True, gc=False):
    """A draft on its way into a queue.

    `copy_of` is the index of an earlier parcel that this one copies to a listener. A copy is not made of a parcel that
    was dropped or refused. Where the original's queue keeps no delivered messages, it leaves with its last copy.
    A parcel that is named `once` is a duplicate when one of that name has come into the queue a short while before.
    """

    queue: Queue
    draft: Draft
    copy_of: int | None = None
    once: str | None = None


class Sent(msgspec.Struct, frozen=True, gc=False):
    """The message is on disk; a duplicate names the message that was kept instead."""

    seq: int
    id: str
    duplicate: bool = False


class Published(msgspec.Struct, frozen=True, gc=False):
    """The message is on disk in every queue that the exchange routed it to; `queue_count` may be 0."""

    id: str
    queue_count: int


class Death(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why and whence a message came to a dead letter queue."""

    reason: str
    source_queue: str
    """The id of the queue it died in."""
    attempts: int
    died_at: int


class Message(msgspec.Struct, kw_only=True, gc=False):
    """A live message. `seq` is its identity inside; `id` is what callers know and need not be unique."""

    seq: int
    id: str
    state: State
    body: bytes
    content_type: str
    attributes: dict[str, Attribute]
    attempts: int
    """How often it has been leased in this queue, the present lease included."""
    sent_at: int
    entered_at: int
    """When it came into this queue: later than `sent_at` for one that was moved."""
    due_at: int
    """When a delayed message turns ready, a lease ends, or since when it has been ready."""
    discard_at: int
    """When it is too old to keep."""
    delay_ms: int = 0
    """How long its sender made it wait."""
    retention_ms: int | None = None
    group: str | None = None
    trace: str | None = None
    death: Death | None = None

    @property
    def size(self) -> int:
        return len(self.body)


class Lease(msgspec.Struct, frozen=True, gc=False):
    """A message in the hands of one receiver until `expires_at`; only the receipt settles it."""

    message: Message
    receipt: str
    expires_at: int


class Ack(msgspec.Struct, frozen=True, gc=False):
    """The message is done; `note` goes into the journal with it."""

    receipt: str
    note: dict[str, Json] | None = None


class Release(msgspec.Struct, frozen=True, gc=False):
    """Give a message back as a failed attempt; None means the queue's retry delay."""

    receipt: str
    delay_ms: int | None = None
    note: dict[str, Json] | None = None
    untried: bool = False
    """Nothing was done with it: the lease does not count as an attempt."""


class Extend(msgspec.Struct, frozen=True, gc=False):
    """Hold a message for `lease_ms` more, from now; the receipt stays the same."""

    receipt: str
    lease_ms: int


Settlement = Ack | Release | Extend


class Settled(msgspec.Struct, frozen=True, gc=False):
    """What a settlement did: `expires_at` after an extension; `dead` when a release used up the last attempt."""

    seq: int
    id: str
    expires_at: int | None = None
    dead: bool = False


class Fate(IntEnum):
    """What becomes of a claim's messages. The numbers are stored; never renumber."""

    HELD = 0
    ACKED = 1
    FREED = 2


class Claim(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Messages that a job holds without end under a number, at positions 0 up to `count`; 0 means that none was ready.

    They are shown as leased. Purge, retention and late acks take them away as they do any other: then their positions
    are empty.
    """

    number: int
    count: int
    byte_count: int = 0
    claimed_at: int = 0
    is_new: bool = False
    """Made by this call, not by an earlier one that asked for the same number."""


class Slice(msgspec.Struct, frozen=True):
    """A part of a claim of `count` messages: those of them that are still there, with their positions.

    `next` is the position to go on with where not all that were asked for fit."""

    count: int
    messages: list[tuple[int, Message]]
    next: int | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who claims messages of a queue. Only its newest epoch may; claims up to number `done` are over."""

    name: str
    epoch: int
    done: int
    opened_at: int
    claims: tuple[Claim, ...] = ()
    """Those that it holds now."""


class Publication(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The newest of a series, which happened as a whole, once; so did all of the series with lower numbers."""

    series: str
    number: int
    count: int
    """How many messages it had."""
    published_at: int


class Counters(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The exact figures of a queue at one instant."""

    ready_count: int = 0
    delayed_count: int = 0
    leased_count: int = 0
    byte_count: int = 0
    oldest_at: int | None = None
    """When the message that has been longest in the queue came into it."""
    sent_count: int = 0
    """Messages that ever came in, by sending or moving; `acked_count` and `dead_count` are those that left so."""
    acked_count: int = 0
    dead_count: int = 0

    @property
    def total_count(self) -> int:
        return self.ready_count + self.delayed_count + self.leased_count


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a queue's messages, oldest first; `next` continues after it and is None at the end."""

    messages: list[Message]
    next: str | None = None


class Action(StrEnum):
    """What a credential may be allowed to do."""

    SEND = "send"
    RECEIVE = "receive"
    BROWSE = "browse"
    MANAGE = "manage"
    STATS = "stats"
    AUDIT = "audit"
    """Only of the whole tenant, and only where it is granted by name."""


USES = (Action.SEND, Action.RECEIVE, Action.BROWSE, Action.MANAGE, Action.STATS)
"""What a credential may do unless its scopes say otherwise."""


class Scope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One action on queues (and exchanges) by name or id; `*` stands for all of them."""

    action: Action
    queues: tuple[str, ...] = ("*",)


class OldSecret(msgspec.Struct, frozen=True):
    """A secret that was replaced and is good until `expires_at`."""

    secret_hash: bytes
    expires_at: int


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A way into one tenant. The secret itself is shown once and kept only as `secret_hash`."""

    id: str
    tenant: str
    name: str
    secret_hash: bytes
    scopes: tuple[Scope, ...] = tuple(Scope(action) for action in USES)
    dialect_scopes: dict[str, tuple[str, ...]] = {}
    """Not empty: only these dialects may be used, and in each of them only these of its own scopes."""
    dialect_facts: dict[str, Json] = {}
    """By dialect: what it alone keeps of the credential; `needs` are scopes that a grantor must have for it."""
    enabled: bool = True
    expires_at: int | None = None
    requests_per_second: float | None = None
    annotations: dict[str, Json] = {}
    created_at: int = 0
    changed_at: int = 0
    old_secrets: tuple[OldSecret, ...] = ()
    """Newest first."""

    @property
    def old_secret_expires_at(self) -> int | None:
        """When the last of the replaced secrets ends, or has ended."""
        return max((old.expires_at for old in self.old_secrets), default=None)

    def secret_hashes(self, now: int) -> tuple[bytes, ...]:
        """The hashes of the secrets that are good now, the newest first."""
        return (self.secret_hash, *(old.secret_hash for old in self.old_secrets if old.expires_at > now))


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A document that a dialect keeps for a tenant, such as an event subscription."""

    kind: str
    tenant: str
    id: str
    document: Json
    created_at: int = 0
    changed_at: int = 0
