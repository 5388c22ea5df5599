"""The state of all queues rebuilt from the journal alone: what the pipeline downstream can know."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from couriermq.core.events import Event, EventKind
from couriermq.core.model import Attribute, Message, State

ENDINGS = {EventKind.ACKED, EventKind.DISCARDED, EventKind.PURGED, EventKind.CANCELLED}
TRANSFERS = {EventKind.DEAD_LETTERED, EventKind.MOVED, EventKind.REDRIVEN}
LEASES = {EventKind.RECEIVED, EventKind.EXTENDED}


@dataclass
class Replayed:
    """A live message as its events tell it."""

    id: str
    queue_id: str
    sent_at: int
    entered_at: int
    content_type: str
    size: int
    body: bytes | None
    attributes: dict[str, Attribute] = field(default_factory=dict)
    group: str | None = None
    trace: str | None = None
    delay_ms: int = 0
    attempts: int = 0
    leased: bool = False


def replay(events: Iterable[Event]) -> dict[int, Replayed]:
    """The messages that are alive after these events, by seq."""
    alive: dict[int, Replayed] = {}
    for event in events:
        if event.seq is not None:
            _apply(alive, event.seq, event)
    return alive


def _apply(alive: dict[int, Replayed], seq: int, event: Event) -> None:
    kind = EventKind(event.kind)
    if kind is EventKind.SENT:
        alive[seq] = _sent(event)
    elif kind in ENDINGS:
        del alive[seq]
    elif kind in TRANSFERS:
        assert event.detail
        alive[seq].queue_id, alive[seq].entered_at = event.detail["target_id"], event.at
        alive[seq].attempts, alive[seq].leased = 0, False
    else:
        assert event.attempt is not None
        untried = bool(event.detail and event.detail.get("untried"))
        alive[seq].attempts, alive[seq].leased = event.attempt - untried, kind in LEASES


def _sent(event: Event) -> Replayed:
    assert event.message_id is not None
    assert event.queue_id is not None
    assert event.size is not None
    detail = event.detail or {}
    return Replayed(
        id=event.message_id,
        queue_id=event.queue_id,
        sent_at=event.at,
        entered_at=event.at,
        content_type=detail["content_type"],
        size=event.size,
        body=detail.get("body"),
        attributes=detail.get("attributes", {}),
        group=detail.get("group") or None,
        trace=detail.get("trace"),
        delay_ms=detail.get("delay_ms", 0),
    )


def as_replayed(message: Message, queue_id: str) -> Replayed:
    """What a browsed message looks like to somebody who has only the journal."""
    return Replayed(
        id=message.id,
        queue_id=queue_id,
        sent_at=message.sent_at,
        entered_at=message.entered_at,
        content_type=message.content_type,
        size=message.size,
        body=message.body,
        attributes=message.attributes,
        group=message.group,
        trace=message.trace,
        delay_ms=message.delay_ms,
        attempts=message.attempts,
        leased=message.state is State.LEASED,
    )
