"""Consuming messages and settling their locks: acknowledge, negative acknowledge, change the TTL."""

from collections.abc import Callable, Sequence

from couriermq.broker import only
from couriermq.core.errors import CourierError, Invalid
from couriermq.core.model import SECOND, Ack, Extend, Queue, Release, Settled, Settlement
from couriermq.dialects.anypoint import limits, place, rights, wire
from couriermq.dialects.anypoint.asking import NOTHING, choice, number, reply
from couriermq.dialects.anypoint.errors import sentence
from couriermq.web.call import Call, Reply
from couriermq.web.errors import MalformedRequest, MethodNotAllowed
from couriermq.web.handing_out import handing_out

VISIBILITIES = (wire.FULL, wire.NONE, wire.CONDITIONAL)
PATCH_SECONDS = limits.PATCH_LOCK_MS // SECOND


async def consume(call: Call) -> Reply:
    queue = _subscribed(call)
    visibility = choice(call, "payloadVisibility", VISIBILITIES)
    leases = await call.services.broker.receive(
        queue,
        principal=call.principal.id,
        limit=number(call, "batchSize", 1, 1, limits.RECEIVE_COUNT),
        lease_ms=number(call, "lockTtl", queue.settings.lease_ms, 0, limits.LOCK_MS),
        wait_ms=number(call, "pollingTime", limits.POLLING_DEFAULT_MS, 0, limits.POLLING_MS),
        group_limit=limits.GROUP_IN_FLIGHT,
    )
    if not leases:
        return NOTHING
    return handing_out(call, queue, leases, Reply(200, wire.write_leases(leases, visibility)))


async def refuse_head(call: Call) -> Reply:
    """A HEAD must change nothing, and a GET here locks what nobody would then see."""
    raise MethodNotAllowed("HEAD", ("DELETE", "GET", "PUT"))


async def ack_one(call: Call) -> Reply:
    queue = _subscribed(call)
    lock = call.json(wire.LOCK) if call.body.strip() else wire.WireLock()
    return await _settle_one(call, queue, _ack(lock), wire.ACKED)


async def nack_one(call: Call) -> Reply:
    return await _settle_one(call, _subscribed(call), Release(call.params["lock"]), wire.NACKED)


async def extend_one(call: Call) -> Reply:
    queue = _lock_holder(call)
    lease_ms = lock_ms(call.json(wire.LOCK).ttl, _unit(call))
    return await _settle_one(call, queue, Extend(call.params["lock"], lease_ms), wire.EXTENDED)


async def ack_batch(call: Call) -> Reply:
    return _in_one(call, await _settle_batch(call, _subscribed(call), _ack, wire.ACKED))


async def nack_batch(call: Call) -> Reply:
    """Give messages back. The acknowledgement of a message whose id is `locks` has the same path: it has an object
    for its body, never an array."""
    if call.body.lstrip()[:1] == b"{":
        call.params = {**call.params, "message": "locks"}
        return await ack_one(call)
    return _in_one(call, await _settle_batch(call, _subscribed(call), _nack, wire.NACKED))


async def extend_batch(call: Call) -> Reply:
    queue, unit = _lock_holder(call), _unit(call)
    return reply(await _settle_batch(call, queue, lambda lock: _extend(lock, unit), wire.EXTENDED))


# -- what one lock asks for -----------------------------------------------------------------------------------


def _ack(lock: wire.WireLock) -> Settlement:
    return Ack(_receipt(lock))


def _nack(lock: wire.WireLock) -> Settlement:
    return Release(_receipt(lock))


def _extend(lock: wire.WireLock, unit: str) -> Settlement:
    return Extend(_receipt(lock), lock_ms(lock.ttl, unit))


def _receipt(lock: wire.WireLock) -> str:
    if not lock.lockId:
        raise Invalid("lockId is required: only the lock that came with a message settles it")
    return lock.lockId


def lock_ms(given: float | str | None, unit: str) -> int:
    """A lock's new TTL. The vendor's text says seconds, up to 12 hours; more than that can only be milliseconds."""
    ttl = wire.whole_or_none("ttl", given)
    if ttl is None:
        raise MalformedRequest("ttl is required: the new time to live of the lock, in seconds")
    if unit == "milliseconds" or (unit == "auto" and ttl > PATCH_SECONDS):
        return limits.check_range("ttl", ttl, 0, limits.PATCH_LOCK_MS)
    return limits.check_range("ttl", ttl, 0, PATCH_SECONDS) * SECOND


def _unit(call: Call) -> str:
    unit = place.customs(call).lock_ttl_unit
    return "seconds" if unit == "auto" and place.is_strict(call) else unit


# -- who may, and what came of it -----------------------------------------------------------------------------


def _subscribed(call: Call) -> Queue:
    return rights.source(call, rights.SUBSCRIBE)


def _lock_holder(call: Call) -> Queue:
    """The vendor's text asks for the publisher's scope, most likely by a slip: locks belong to subscribers."""
    scopes = (rights.PUBLISH,) if place.is_strict(call) else (rights.SUBSCRIBE, rights.PUBLISH)
    return rights.source(call, *scopes)


async def _settle_one(call: Call, queue: Queue, settlement: Settlement, done: str) -> Reply:
    only(await call.services.broker.settle(queue, [settlement], principal=call.principal.id))
    return reply(wire.done(call.params["message"], done))


async def _settle_batch(
    call: Call, queue: Queue, ask: Callable[[wire.WireLock], Settlement], done: str
) -> list[wire.Outcome]:
    """One outcome a lock; a lock that is dead, or makes no sense, leaves the others settled."""
    locks = call.json(wire.LOCKS)
    limits.check_count(len(locks), limits.SETTLE_COUNT)
    asked = [_try(ask, lock) for lock in locks]
    good = [settlement for settlement in asked if not isinstance(settlement, CourierError)]
    settled = iter(await call.services.broker.settle(queue, good, principal=call.principal.id) if good else ())
    outcomes = [one if isinstance(one, CourierError) else next(settled) for one in asked]
    return [_outcome(lock, outcome, done) for lock, outcome in zip(locks, outcomes, strict=True)]


def _try(ask: Callable[[wire.WireLock], Settlement], lock: wire.WireLock) -> Settlement | CourierError:
    try:
        return ask(lock)
    except CourierError as error:
        return error


def _outcome(lock: wire.WireLock, outcome: Settled | CourierError, done: str) -> wire.Outcome:
    if isinstance(outcome, CourierError):
        return wire.failed(lock.messageId or "", sentence(outcome), lock.lockId or "")
    return wire.done(lock.messageId or outcome.id, done, lock.lockId)


def _in_one(call: Call, outcomes: Sequence[wire.Outcome]) -> Reply:
    """An outcome a message; by the letter of the vendor's schema a single object, so then the first that failed."""
    if not place.is_strict(call):
        return reply(outcomes)
    return reply(next((outcome for outcome in outcomes if outcome.status != wire.SUCCESSFUL), outcomes[0]))
