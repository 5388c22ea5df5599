"""A publication: which queues take a message, what its sender is told, and what the journal says of it."""

from collections.abc import Sequence
from typing import NamedTuple

from couriermq.core.errors import CourierError
from couriermq.core.events import Event, EventKind
from couriermq.core.model import Draft, Exchange, Published, Queue, Sent


class Route(NamedTuple):
    """The queues that take a draft, and how many others it would have gone to but is too large for."""

    queues: list[Queue]
    refused_count: int


def published_event(exchange: Exchange, draft: Draft, route: Route, now: int, principal: str) -> Event:
    refused = {"refused_count": route.refused_count} if route.refused_count else {}
    return Event(
        kind=EventKind.PUBLISHED,
        at=now,
        tenant=exchange.tenant,
        queue_id=exchange.id,
        queue=exchange.name,
        message_id=draft.id,
        size=len(draft.body),
        principal=principal,
        detail={"queue_count": len(route.queues), **refused},
    )


def published_outcome(draft: Draft, outcomes: Sequence[Sent | CourierError]) -> Published | CourierError:
    assert draft.id is not None
    failed = [outcome for outcome in outcomes if isinstance(outcome, CourierError)]
    return failed[0] if failed else Published(draft.id, len(outcomes))
