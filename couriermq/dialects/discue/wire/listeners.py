"""Listeners on the wire."""

from collections.abc import Sequence
from typing import Any

import msgspec

from couriermq.core.errors import Invalid
from couriermq.core.model import Counters, Json, Listener, ListenerState
from couriermq.delivery import Health, Liveness
from couriermq.dialects.discue.wire.answers import path_of
from couriermq.dialects.discue.wire.reading import Named, read

STATES = {
    "active": ListenerState.ACTIVE,
    "enabled": ListenerState.ACTIVE,
    "paused": ListenerState.PAUSED,
    "disabled": ListenerState.PAUSED,
    "inactive": ListenerState.PAUSED,
}
"""What a caller may set a listener's status to; disabling one is how its owner pauses it."""


LATEST = 2**53
"""Instants are below this, so that every reader of JSON can hold them."""


class ListenerOrder(Named):
    notify_url: str | None = None
    liveness_url: str | None = None
    status: str | None = None


_order = msgspec.json.Decoder(ListenerOrder)


class ListenerChange(msgspec.Struct):
    """What a caller wants of a listener, in our words; None is what it did not say."""

    name: str | None
    url: str | None
    liveness_url: str | None
    state: ListenerState | None

    def urls(self) -> dict[str, str | None]:
        return {"notify_url": self.url, "liveness_url": self.liveness_url}

    def changes(self) -> dict[str, Any]:
        said = {"name": self.name, "url": self.url, "liveness_url": self.liveness_url}
        return {field: value for field, value in said.items() if value is not None}


class NewListener(msgspec.Struct):
    name: str
    url: str
    liveness_url: str
    state: ListenerState

    def urls(self) -> dict[str, str | None]:
        return {"notify_url": self.url, "liveness_url": self.liveness_url}


def read_change(body: bytes) -> ListenerChange:
    order = read(_order, body)
    if order.status is not None and order.status not in STATES:
        raise Invalid(f"status is {order.status[:40]!r}; choose one of {', '.join(STATES)}", field="status")
    state = None if order.status is None else STATES[order.status]
    return ListenerChange(order.called, order.notify_url, order.liveness_url, state)


def read_new(body: bytes) -> NewListener:
    order = read_change(body)
    if order.name is None or order.url is None or order.liveness_url is None:
        raise Invalid("a listener needs a name (or alias), a notify_url and a liveness_url")
    return NewListener(order.name, order.url, order.liveness_url, order.state or ListenerState.ACTIVE)


class ReplayOrder(msgspec.Struct):
    """What to deliver again; instants are epoch milliseconds."""

    message_ids: list[str] | None = None
    since: int | None = None
    until: int | None = None
    missed: bool = False


_replay = msgspec.json.Decoder(ReplayOrder)


def read_replay(body: bytes) -> ReplayOrder:
    order = read(_replay, body)
    for field in ("since", "until"):
        value = getattr(order, field)
        if value is not None and not 0 <= value < LATEST:
            raise Invalid(f"{field} is an instant in epoch milliseconds", field=field)
    return order


class Track(msgspec.Struct, frozen=True):
    """What has become of the messages for a listener."""

    outbox: Counters
    dead: Counters
    missed: Sequence[str]


def listener_path(listener: Listener) -> str:
    return path_of("queues", listener.queue_id, "listeners", listener.id)


def write_listener(listener: Listener, health: Health, track: Track, *, with_secret: bool) -> dict[str, Json]:
    written: dict[str, Json] = {
        "id": listener.id,
        "name": listener.name,
        "alias": listener.name,
        "queue_id": listener.queue_id,
        "status": _status(listener, health),
        "notify_url": listener.url,
        "liveness_url": listener.liveness_url or "",
        "liveness": _write_liveness(health),
        "messages": _write_messages(health, track),
        "created_at": listener.created_at,
        "updated_at": listener.changed_at,
    }
    if listener.reason is not None:
        written["status_reason"] = listener.reason
    if with_secret and listener.secrets:
        written["secret"] = listener.secrets[0].value
    return written


def _status(listener: Listener, health: Health) -> str:
    down = listener.state is ListenerState.ACTIVE and health.liveness is Liveness.DOWN
    return "inactive" if down else listener.state.value


def _write_liveness(health: Health) -> dict[str, Json]:
    return {
        "state": health.liveness.value,
        "success_count": health.live_count,
        "failure_count": health.lifeless_count,
        "last_success_at": health.last_live_at,
        "last_failure_at": health.last_lifeless_at,
        "last_failure_status": health.last_lifeless_status,
        "last_failure_msg": health.last_lifeless_error,
    }


def _write_messages(health: Health, track: Track) -> dict[str, Json]:
    return {
        "acknowledged_count": track.outbox.acked_count,
        "missed": track.missed,
        "missed_count": track.dead.total_count,
        "pending_count": track.outbox.total_count,
        "last_success_at": health.last_success_at,
        "last_failure_at": health.last_failure_at,
        "last_failure_status": health.last_failure_status,
        "last_failure_msg": health.last_failure_error,
    }
