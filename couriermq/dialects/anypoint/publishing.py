"""Publishing to a queue, or to an exchange that passes copies on."""

from collections.abc import Sequence

from couriermq.broker import only
from couriermq.core.errors import BodyTooLarge, CourierError, QueueNotFound
from couriermq.core.model import Draft, Exchange, Queue
from couriermq.core.surrogates import has_half
from couriermq.dialects.anypoint import fallback, limits, place, rights, wire
from couriermq.dialects.anypoint.asking import reply
from couriermq.dialects.anypoint.errors import sentence
from couriermq.web.call import Call, Reply
from couriermq.web.errors import MalformedRequest


async def publish_one(call: Call) -> Reply:
    target = _publishable(call)
    message_id = call.params["message"]
    draft = _draft(call, call.json(wire.MESSAGE, halves=True), message_id, target, _routed(call, target))
    only(await _send(call, target, [draft]))
    return reply(wire.done(message_id, wire.PUBLISHED), status=201)


async def publish_batch(call: Call) -> Reply:
    target = _publishable(call)
    messages = call.json(wire.MESSAGES, halves=True)
    limits.check_count(len(messages), limits.PUBLISH_COUNT)
    message_ids = [_message_id(call, message) for message in messages]
    outcomes = await _send_good(call, target, _drafts(call, messages, message_ids, target))
    # One that is too large fails alone; where all are, the request itself was too large.
    status = 413 if all(isinstance(outcome, BodyTooLarge) for outcome in outcomes) else 200
    return reply(wire.write_outcomes(outcomes, message_ids, wire.PUBLISHED, sentence), status=status)


def _publishable(call: Call) -> Queue | Exchange:
    target = rights.destination(call, rights.PUBLISH)
    if isinstance(target, Queue) and fallback.is_closed(target):
        raise QueueNotFound(target.name)
    return target


def _message_id(call: Call, message: wire.WireMessage) -> str:
    """The publisher names its messages; where it forgot to, the lenient mode does."""
    given = (message.headers or {}).get("messageId")
    if isinstance(given, str) and given:
        if has_half(given):
            raise MalformedRequest("headers.messageId holds half of a surrogate pair; send whole characters")
        return given
    if given is None and not place.is_strict(call):
        return call.services.clock.random_bytes(16).hex()
    raise MalformedRequest("each message of a batch needs headers.messageId, a string that is not empty")


def _routed(call: Call, target: Queue | Exchange) -> frozenset[str]:
    """The standard headers that routing rules of this exchange look at."""
    if isinstance(target, Queue):
        return frozenset()
    bindings = call.services.catalog.bindings_of(target)
    return frozenset(rule.attribute for binding in bindings for rule in binding.rules) & wire.HEADERS


def _drafts(
    call: Call, messages: Sequence[wire.WireMessage], message_ids: Sequence[str], target: Queue | Exchange
) -> list[Draft | CourierError]:
    routed = _routed(call, target)
    drafts: list[Draft | CourierError] = []
    for message, message_id in zip(messages, message_ids, strict=True):
        try:
            drafts.append(_draft(call, message, message_id, target, routed))
        except CourierError as error:
            drafts.append(error)
    return drafts


def _draft(
    call: Call, message: wire.WireMessage, message_id: str, target: Queue | Exchange, routed: frozenset[str]
) -> Draft:
    return wire.read_draft(
        message,
        message_id=message_id,
        queue=target if isinstance(target, Queue) else None,
        routed=routed,
        trace=call.trace,
    )


async def _send(call: Call, target: Queue | Exchange, drafts: Sequence[Draft]) -> Sequence[object]:
    broker, principal = call.services.broker, call.principal.id
    if isinstance(target, Queue):
        return await broker.send(target, drafts, principal=principal)
    return await broker.publish(target, drafts, principal=principal)


async def _send_good(call: Call, target: Queue | Exchange, drafts: Sequence[Draft | CourierError]) -> list[object]:
    good = [draft for draft in drafts if isinstance(draft, Draft)]
    sent = iter(await _send(call, target, good) if good else ())
    return [next(sent) if isinstance(draft, Draft) else draft for draft in drafts]
