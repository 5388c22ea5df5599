"""Listeners, their health and their deliveries on the wire. Secrets are shown when they are made or revealed."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.core import limits, model
from couriermq.core.errors import Invalid
from couriermq.core.model import ListenerSettings, ListenerState, Rule
from couriermq.core.numbers import Numbers
from couriermq.core.redaction import redacted_authorization, redacted_url
from couriermq.delivery import DeliveryAttempt, Health, LogPage, Replayed
from couriermq.delivery.checks import CONCURRENCY, NAME_CHARS, TIMEOUT_MS, WAIT_COUNT
from couriermq.delivery.guard import URL_CHARS
from couriermq.delivery.headers import HEADER_COUNT
from couriermq.delivery.signing import public_key
from couriermq.dialects.native import limits as ours
from couriermq.dialects.native.wire.annotations import Annotations
from couriermq.dialects.native.wire.reading import Order

# What delivery itself checks is only documented here: its sentences say more.
ListenerName = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": NAME_CHARS})]
Url = Annotated[str, Meta(extra_json_schema={"format": "uri", "maxLength": URL_CHARS})]
Wait = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": limits.DELAY_MS})]
Timeout = Annotated[int, Meta(extra_json_schema={"minimum": TIMEOUT_MS[0], "maximum": TIMEOUT_MS[1]})]
Concurrency = Annotated[int, Meta(extra_json_schema={"minimum": CONCURRENCY[0], "maximum": CONCURRENCY[1]})]
Part = Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
Rate = Annotated[float, Meta(extra_json_schema={"minimum": 0.001, "maximum": 100_000})]
Headers = Annotated[dict[str, str], Meta(extra_json_schema={"maxProperties": HEADER_COUNT})]
Authorization = Annotated[
    dict[str, str],
    Meta(
        description="How Courier proves itself to the receiver: `type` is bearer (`token`), basic (`username`,"
        " `password`) or oauth (`token_url`, `client_id`, `client_secret`, and if need be `scope`, `audience`)."
        " Secrets are not shown again."
    ),
]
State = Annotated[
    ListenerState,
    Meta(description="active; paused by its owner; or disabled by Courier for the `reason` given. Messages wait."),
]
Reason = Annotated[str | None, Meta(description="Why Courier has disabled the listener.")]
SecretValue = Annotated[
    str,
    Meta(description="What deliveries are signed with: `whsec_…` (HMAC-SHA256) or `whsk_…` (ed25519), base64."),
]
Instant = Annotated[int, Meta(ge=0, le=ours.NUMBER)]
Rules = Annotated[
    tuple[Rule, ...],
    Meta(description="Which messages it gets: all rules must hold; `$.order.total` looks into a JSON body.",
         max_length=100),
]  # fmt: skip


class SomeListenerSettings(Order):
    """The settings to set; what is left out keeps its value, or its default on a new listener."""

    schedule_ms: Annotated[tuple[Wait, ...], Meta(extra_json_schema={"maxItems": WAIT_COUNT})] | UnsetType = UNSET
    jitter: Part | UnsetType = UNSET
    timeout_ms: Timeout | UnsetType = UNSET
    concurrency: Concurrency | UnsetType = UNSET
    requests_per_second: Rate | UnsetType | None = UNSET
    ordered: bool | UnsetType = UNSET
    rules: Rules | UnsetType = UNSET
    headers: Headers | UnsetType = UNSET
    authorization: Authorization | UnsetType | None = UNSET
    cloudevents: bool | UnsetType = UNSET


class NewListener(Order):
    """A listener gets what is sent to its queue from now on. Without `secret` one is made, of the kind `signing`."""

    name: ListenerName
    url: Url
    liveness_url: Url | None = None
    settings: SomeListenerSettings = msgspec.field(default_factory=SomeListenerSettings)
    annotations: Annotations = msgspec.field(default_factory=dict)
    secret: SecretValue | None = None
    signing: Literal["hmac", "ed25519"] = "hmac"


class ListenerChange(Order):
    """What to change; what is left out stays as it is. Whether deliveries are ordered is for life."""

    name: ListenerName | UnsetType = UNSET
    url: Url | UnsetType = UNSET
    liveness_url: Url | UnsetType | None = UNSET
    settings: SomeListenerSettings | UnsetType = UNSET
    annotations: Annotations | UnsetType = UNSET


class RotateOrder(Order):
    """Without `secret` one of the same kind is made; the old ones sign on for `overlap_ms`."""

    secret: SecretValue | None = None
    overlap_ms: Annotated[int, Meta(ge=0, le=7 * model.DAY)] = model.DAY


class ReplayOrder(Order):
    """One of: chosen messages, all that were sent from `since` up to `until`, or all that were missed."""

    message_ids: (
        Annotated[list[str], Meta(extra_json_schema={"minItems": 1, "maxItems": limits.BATCH_COUNT})] | None
    ) = None
    since: Instant | None = None
    until: Instant | None = None
    missed: bool = False


class RevealQuery(Order):
    """Whether to show the signing secrets; a caller must ask for them."""

    reveal: bool = False


class LogQuery(Order):
    """Where a page of the delivery log starts and how long it may be."""

    limit: Annotated[int, Meta(ge=1, le=ours.LIST_COUNT)] = ours.BROWSE_COUNT
    before: str | None = None


class DeliveryCounters(msgspec.Struct):
    """Exact figures: messages that wait for this listener, that it has got, and that are among its dead letters."""

    waiting_count: int
    delivered_count: int
    dead_letter_count: int


class SigningSecret(msgspec.Struct, kw_only=True):
    """`value` is shown where it was just made or is revealed; receivers need only a `public_key`, if there is one."""

    value: SecretValue | UnsetType = UNSET
    created_at: int
    expires_at: int | None
    public_key: str | UnsetType = UNSET


class Listener(msgspec.Struct, kw_only=True):
    id: str
    name: str
    tenant: str
    queue: str
    queue_id: str
    url: str
    liveness_url: str | None
    state: State
    reason: Reason
    settings: ListenerSettings
    annotations: Annotations
    health: Health
    counters: DeliveryCounters
    secret: SecretValue | UnsetType = UNSET
    secrets: list[SigningSecret] | UnsetType = UNSET
    created_at: int
    changed_at: int


class Listeners(msgspec.Struct):
    """A page of listeners. `next` goes into `after` for the page that follows; null is the end."""

    listeners: list[Listener]
    next: str | None


class Deliveries(msgspec.Struct):
    """A page of the delivery log, newest first. A page may hold few attempts, or none, and still have a `next`."""

    deliveries: list[DeliveryAttempt]
    next: str | None


NEW_LISTENER = msgspec.json.Decoder(NewListener)
LISTENER_CHANGE = msgspec.json.Decoder(ListenerChange)
ROTATE = msgspec.json.Decoder(RotateOrder)
REPLAY = msgspec.json.Decoder(ReplayOrder)


def settings_of(some: SomeListenerSettings, base: ListenerSettings) -> ListenerSettings:
    """The base with what the caller gives laid over it."""
    given = {name: value for name in some.__struct_fields__ if (value := getattr(some, name)) is not UNSET}
    return msgspec.structs.replace(base, **given)


def changes_of(change: ListenerChange) -> dict[str, Any]:
    """What stands in the change, but for the settings."""
    names = ("name", "url", "liveness_url", "annotations")
    return {name: value for name in names if (value := getattr(change, name)) is not UNSET}


def in_settings(error: Invalid) -> Invalid:
    """The same error, with the place where the caller finds the field."""
    return Invalid(str(error), field=f"settings.{error.field}" if error.field else "settings")


def write_listener(
    listener: model.Listener,
    *,
    queue: str,
    health: Health,
    outbox: model.Counters,
    dead_letters: model.Counters,
    managed: bool,
    reveal: bool,
) -> Listener:
    """The listener for those who may see it; `managed` is for those who may manage it, `reveal` shows its secrets."""
    return Listener(
        id=listener.id,
        name=listener.name,
        tenant=listener.tenant,
        queue=queue,
        queue_id=listener.queue_id,
        url=listener.url if managed else redacted_url(listener.url),
        liveness_url=listener.liveness_url
        if managed or listener.liveness_url is None
        else redacted_url(listener.liveness_url),
        state=listener.state,
        reason=listener.reason,
        settings=_write_settings(listener.settings, managed=managed),
        annotations=listener.annotations,
        health=health,
        counters=DeliveryCounters(outbox.total_count, outbox.acked_count, dead_letters.total_count),
        secret=listener.secrets[0].value if reveal and listener.secrets else UNSET,
        secrets=[_write_secret(secret, reveal=reveal) for secret in listener.secrets] if managed else UNSET,
        created_at=listener.created_at,
        changed_at=listener.changed_at,
    )


def _write_settings(settings: ListenerSettings, *, managed: bool) -> ListenerSettings:
    """Headers may be secret, and so are some parts of an authorization, to everybody."""
    shown = redacted_authorization(settings.authorization)
    if managed and shown and settings.authorization and "token_url" in shown:
        shown["token_url"] = settings.authorization["token_url"]
    return msgspec.structs.replace(settings, authorization=shown, headers=settings.headers if managed else {})


def _write_secret(secret: model.Secret, *, reveal: bool) -> SigningSecret:
    return SigningSecret(
        value=secret.value if reveal else UNSET,
        created_at=secret.created_at,
        expires_at=secret.expires_at,
        public_key=public_key(secret.value) or UNSET,
    )


def write_log(page: LogPage, numbers: Numbers) -> Deliveries:
    seqs = numbers.seqs([attempt.seq for attempt in page.attempts])
    attempts = [msgspec.structs.replace(one, seq=seq) for one, seq in zip(page.attempts, seqs, strict=True)]
    return Deliveries(attempts, numbers.cursor(page.next))


__all__ = ["DeliveryAttempt", "Health", "Replayed"]
