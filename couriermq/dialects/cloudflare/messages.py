"""Messages: push, batch, pull, ack and retry, peek, purge by ref."""

from couriermq.broker import Filter
from couriermq.core.errors import CourierError, Unavailable
from couriermq.core.limits import BATCH_COUNT, Room, weight_of
from couriermq.core.model import Ack, Action, Counters, Draft, Message, Queue, Release, State
from couriermq.dialects.cloudflare import limits
from couriermq.dialects.cloudflare.access import queue_of
from couriermq.dialects.cloudflare.errors import Code, Refused
from couriermq.dialects.cloudflare.ids import queue_id
from couriermq.dialects.cloudflare.wire import pull as pull_wire
from couriermq.dialects.cloudflare.wire import push as push_wire
from couriermq.dialects.cloudflare.wire import settle as settle_wire
from couriermq.dialects.cloudflare.wire.consumers import HTTP_PULL, consumer_of
from couriermq.dialects.cloudflare.wire.envelope import ok
from couriermq.web.call import Call, Reply
from couriermq.web.handing_out import handing_out

WAITING = Filter(states=(State.READY, State.DELAYED))


async def push(call: Call) -> Reply:
    queue = queue_of(call, Action.SEND)
    draft = push_wire.read_push(call.body, queue, trace=call.trace)
    await call.services.broker.send_one(queue, draft, principal=call.principal.id)
    return ok(pull_wire.write_push(await counters_beside(call, queue)))


async def push_batch(call: Call) -> Reply:
    queue = queue_of(call, Action.SEND)
    drafts = push_wire.read_batch(call.body, queue, trace=call.trace)
    await store(call, queue, drafts)
    return ok(pull_wire.write_push(await counters_beside(call, queue)))


async def store(call: Call, queue: Queue, drafts: list[Draft]) -> None:
    """Send drafts that were checked; what the broker refuses all the same is raised."""
    for outcome in await call.services.broker.send(queue, drafts, principal=call.principal.id):
        if isinstance(outcome, CourierError):
            raise outcome


async def counters_beside(call: Call, queue: Queue) -> Counters:
    """The counters for a reply about what is committed already: none where they cannot be read, so that it is told."""
    try:
        return await call.services.broker.counters(queue)
    except Unavailable:
        return Counters()


async def pull(call: Call) -> Reply:
    queue = queue_of(call, Action.RECEIVE)
    batch_size = _pullable(queue)
    limit, lease_ms = pull_wire.read_pull(call.body)
    leases = await call.services.broker.receive(
        queue, principal=call.principal.id, limit=limit or batch_size, lease_ms=lease_ms
    )
    counters = await counters_beside(call, queue)
    answer = ok(pull_wire.write_pull(leases, counters, json_plain=_json_plain(call)))
    return handing_out(call, queue, leases, answer)


def _pullable(queue: Queue) -> int:
    """How many messages a pull gets unless it says; refused where no consumer has switched pulling on."""
    consumer = consumer_of(queue)
    if consumer is None or consumer.type != HTTP_PULL:
        raise Refused(
            Code.NONE,
            "messages cannot be pulled unless http_pull mode is enabled",
            status=405,
            hint=f"create a consumer of type http_pull for queue {queue.name!r}: "
            f"POST …/queues/{queue_id(queue)}/consumers",
        )
    return consumer.batch_size or limits.PULL_DEFAULT


def _json_plain(call: Call) -> bool:
    return call.services.settings.dialects.cloudflare.json_body == "plain"


async def ack(call: Call) -> Reply:
    queue = queue_of(call, Action.RECEIVE)
    acks, retries = settle_wire.read_ack(call.body)
    settlements: list[Ack | Release] = [*acks, *retries]
    tally = settle_wire.AckTally()
    for start in range(0, len(settlements), BATCH_COUNT):
        chunk = settlements[start : start + BATCH_COUNT]
        tally.add(chunk, await call.services.broker.settle(queue, chunk, principal=call.principal.id))
    return ok(tally.write())


async def peek(call: Call) -> Reply:
    queue = queue_of(call, Action.BROWSE, Action.RECEIVE)
    limit = pull_wire.read_peek(call.body)
    sealer = call.services.sealer
    seen = [(message, sealer.ref(queue.key, message.seq)) for message in await _waiting(call, queue, limit)]
    return ok(pull_wire.write_peek(seen, json_plain=_json_plain(call)))


async def _waiting(call: Call, queue: Queue, limit: int) -> list[Message]:
    """The oldest messages that nobody holds, up to `limit`, as far as PEEK_BROWSES and the bytes of a response go."""
    messages: list[Message] = []
    after, room = None, Room()
    for _ in range(limits.PEEK_BROWSES):
        page = await call.services.broker.browse(queue, where=WAITING, limit=limit - len(messages), after=after)
        for message in page.messages:
            if not room.takes(weight_of(message.body, message.attributes)):
                return messages
            messages.append(message)
        after = page.next
        if after is None or len(messages) == limit:
            break
    return messages


async def purge(call: Call) -> Reply:
    queue = queue_of(call, Action.MANAGE)
    refs = settle_wire.read_refs(call.body)
    sealer = call.services.sealer
    places = {ref: sealer.read_ref(ref) for ref in refs}
    seqs = {ref: place[1] for ref, place in places.items() if place is not None and place[0] == queue.key}
    removed: set[int] = set()
    if seqs:
        removal = await call.services.broker.remove(queue, list(seqs.values()), principal=call.principal.id)
        removed.update(removal.gone)
    return ok(
        settle_wire.write_purge(
            unknown=[ref for ref in places if ref not in seqs],
            gone=[ref for ref, seq in seqs.items() if seq not in removed],
        )
    )
