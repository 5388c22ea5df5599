"""What of an event's detail a reader of the journal may see.

Who may read the figures of a queue sees that something happened to a message, and when. The content of messages and
the addresses of listeners are for those who may browse the queue; the rights of credentials are for those who manage
the tenant. A kind or a field that is not named here is not shown to anybody else.
"""

from couriermq.core.events import EventKind
from couriermq.core.model import Json

FIGURES = frozenset({
    "at", "claim", "content_type", "delay_ms", "delivered", "late", "latency_ms", "queue_count", "reason",
    "refused_count", "status", "target", "target_id", "untried", "verdict",
})  # fmt: skip
IDENTITY = frozenset({"id", "tenant", "name", "queue_id", "created_at", "changed_at"})

QUEUE_KINDS = frozenset({EventKind.QUEUE_ADDED, EventKind.QUEUE_CHANGED, EventKind.QUEUE_DELETED})
LISTENER_KINDS = frozenset({EventKind.LISTENER_ADDED, EventKind.LISTENER_CHANGED, EventKind.LISTENER_DELETED})
CREDENTIAL_KINDS = frozenset({EventKind.CREDENTIAL_ADDED, EventKind.CREDENTIAL_CHANGED, EventKind.CREDENTIAL_DELETED})
SETTING_KINDS = frozenset({
    *QUEUE_KINDS,
    EventKind.TENANT_ADDED, EventKind.TENANT_CHANGED, EventKind.TENANT_DELETED,
    EventKind.EXCHANGE_ADDED, EventKind.EXCHANGE_CHANGED, EventKind.EXCHANGE_DELETED,
    EventKind.BINDING_ADDED, EventKind.BINDING_CHANGED, EventKind.BINDING_DELETED,
    EventKind.RECORD_ADDED, EventKind.RECORD_CHANGED, EventKind.RECORD_DELETED,
})  # fmt: skip
"""Their details are what every reader of figures may also ask the control plane for."""


def shown_detail(
    kind: str, detail: dict[str, Json] | None, *, content: bool, credentials: bool
) -> dict[str, Json] | None:
    """The detail for a reader who may see content, rights of credentials, both or neither."""
    if not detail or kind in SETTING_KINDS:
        return detail
    if kind in CREDENTIAL_KINDS:
        return detail if credentials else _only(detail, IDENTITY | {"enabled"})
    if content:
        return detail
    return _only(detail, IDENTITY | {"state"} if kind in LISTENER_KINDS else FIGURES)


def tenant_detail(kind: str, detail: dict[str, Json] | None) -> dict[str, Json] | None:
    """The detail for anybody but root: without a queue's key, which counts the queues of all tenants."""
    if not detail or kind not in QUEUE_KINDS or "key" not in detail:
        return detail
    return {name: value for name, value in detail.items() if name != "key"}


def _only(detail: dict[str, Json], fields: frozenset[str]) -> dict[str, Json] | None:
    return {name: value for name, value in detail.items() if name in fields} or None
