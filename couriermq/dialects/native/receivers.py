"""Who consumes a queue: rates by principal, and the leases that are held now."""

from couriermq.broker import Filter
from couriermq.core.errors import QueueNotFound
from couriermq.core.model import Action, Message, Queue, State
from couriermq.dialects.native.access import queue_for
from couriermq.dialects.native.operations import QUEUE, Operation, ok
from couriermq.dialects.native.wire import receivers as wire
from couriermq.monitor.holders import Holder, holders_of
from couriermq.monitor.rates import ACKED, EXPIRED, RECEIVED, RELEASED, Activity
from couriermq.web.call import Call, Reply

LEASE_COUNT = 100
RECEIVING = (RECEIVED, ACKED, RELEASED, EXPIRED)


async def read_receivers(call: Call) -> Reply:
    queue, services = queue_for(call, Action.STATS), call.services
    services.monitor.watch()
    page = await services.broker.browse(queue, where=Filter(states=(State.LEASED,)), limit=LEASE_COUNT)
    holders = await holders_of(services.history, queue.id, [message.seq for message in page.messages])
    counters = await services.broker.counters(queue)
    return ok(
        wire.Receivers(
            at=services.clock.now(),
            waiting_count=services.broker.waiting_count(queue),
            principals=_principals(call, queue, holders),
            leases=[_lease(call, message, holders.get(message.seq)) for message in page.messages],
            leased_count=counters.leased_count,
        )
    )


def _principals(call: Call, queue: Queue, holders: dict[int, Holder]) -> list[wire.Receiver]:
    """Those who receive, and those who hold something; the busiest first."""
    known = call.services.monitor.rates.of(queue.id).principals
    receiving = {name for name, activity in known.items() if any(one in activity.recent for one in RECEIVING)}
    held: dict[str, list[int]] = {}
    for holder in holders.values():
        if holder.principal is not None:
            held.setdefault(holder.principal, []).append(holder.since)
    listed = [_receiver(call, name, known.get(name, Activity()), held.get(name, [])) for name in receiving | set(held)]
    return sorted(listed, key=lambda one: (-one.received_per_second, one.id))


def _receiver(call: Call, principal: str, activity: Activity, held: list[int]) -> wire.Receiver:
    second = call.services.clock.now() // 1_000
    return wire.Receiver(
        id=principal,
        name=name_of(call, principal),
        received_per_second=round(activity.per_second(RECEIVED, second), 2),
        acked_per_second=round(activity.per_second(ACKED, second), 2),
        released_per_second=round(activity.per_second(RELEASED, second), 2),
        expired_per_second=round(activity.per_second(EXPIRED, second), 2),
        leased_count=len(held),
        oldest_lease_at=min(held, default=None),
        last_received_at=activity.last_received_at,
    )


def name_of(call: Call, principal: str | None) -> str | None:
    """The name of a credential, which is for those who manage the tenant."""
    if principal is None or not call.principal.may_all(Action.MANAGE):
        return None
    credential = call.services.catalog.credential_of_id(principal)
    return credential.name if credential else None


def _lease(call: Call, message: Message, holder: Holder | None) -> wire.HeldLease:
    principal = holder.principal if holder else None
    return wire.HeldLease(
        seq=call.numbers.seq(message.seq),
        message_id=message.id,
        principal=principal,
        principal_name=name_of(call, principal),
        since=holder.since if holder else None,
        expires_at=message.due_at,
        attempt=message.attempts,
    )


OPERATIONS = (
    Operation(
        method="GET",
        path=QUEUE + "/receivers",
        handler=read_receivers,
        tag="Stats",
        summary="See who consumes a queue",
        description="Rates are means of the last minute. `leases` are up to a hundred, the oldest message first, each"
        " with its holder where it has received the message among the last 100,000 events. `waiting_count` are the"
        " receivers that wait at this node.",
        needs="stats",
        gives={200: wire.Receivers},
        fails=(QueueNotFound,),
    ),
)
