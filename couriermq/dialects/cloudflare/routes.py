"""Every path of Cloudflare Queues and who serves it."""

from collections.abc import Sequence

from couriermq.dialects.cloudflare import binding, consumers, limits, messages, queues, subscriptions
from couriermq.dialects.cloudflare.purges import Purges
from couriermq.web.call import Handler, Route
from couriermq.web.turns import Turn

PREFIX = "/client/v4"
ACCOUNT = PREFIX + "/accounts/{account_id}"
QUEUES = ACCOUNT + "/queues"
QUEUE = QUEUES + "/{queue_id}"
MESSAGES = QUEUE + "/messages"
CONSUMERS = QUEUE + "/consumers"
CONSUMER = CONSUMERS + "/{consumer_id}"
SUBSCRIPTIONS = ACCOUNT + "/event_subscriptions/subscriptions"
SUBSCRIPTION = SUBSCRIPTIONS + "/{subscription_id}"
BINDING = QUEUE + "/binding"


def routes() -> Sequence[Route]:
    turn, purges = Turn(), Purges()
    return (*_message_routes(), *_queue_routes(turn, purges), *_consumer_routes(turn), *_subscription_routes(turn))


def _message_routes() -> list[Route]:
    return [
        _route("POST", MESSAGES, messages.push, limits.PUSH_REQUEST_BYTES),
        _route("POST", MESSAGES + "/batch", messages.push_batch, limits.BATCH_REQUEST_BYTES),
        _route("POST", MESSAGES + "/pull", messages.pull),
        _route("POST", MESSAGES + "/ack", messages.ack),
        _route("POST", MESSAGES + "/peek", messages.peek),
        _route("POST", MESSAGES + "/preview", messages.peek),
        _route("POST", MESSAGES + "/purge", messages.purge),
        _route("POST", BINDING + "/message", binding.message, limits.BATCH_REQUEST_BYTES),
        _route("POST", BINDING + "/batch", binding.batch, limits.BATCH_REQUEST_BYTES),
        _route("GET", BINDING + "/metrics", binding.metrics),
    ]


def _queue_routes(turn: Turn, purges: Purges) -> list[Route]:
    return [
        _route("GET", QUEUES, queues.list_queues),
        _route("GET", ACCOUNT + "/workers/queues", queues.list_queues),
        _route("POST", QUEUES, turn(queues.create_queue)),
        _route("GET", QUEUE, queues.get_queue),
        _route("PUT", QUEUE, turn(queues.replace_queue)),
        _route("PATCH", QUEUE, turn(queues.edit_queue)),
        _route("DELETE", QUEUE, turn(queues.delete_queue)),
        _route("GET", QUEUE + "/metrics", queues.get_metrics),
        _route("POST", QUEUE + "/purge", purges.start),
        _route("GET", QUEUE + "/purge", purges.status),
    ]


def _consumer_routes(turn: Turn) -> list[Route]:
    return [
        _route("GET", CONSUMERS, consumers.list_consumers),
        _route("POST", CONSUMERS, turn(consumers.create_consumer)),
        _route("GET", CONSUMER, consumers.get_consumer),
        _route("PUT", CONSUMER, turn(consumers.replace_consumer)),
        _route("DELETE", CONSUMER, turn(consumers.delete_consumer)),
    ]


def _subscription_routes(turn: Turn) -> list[Route]:
    return [
        _route("GET", SUBSCRIPTIONS, subscriptions.list_subscriptions),
        _route("POST", SUBSCRIPTIONS, turn(subscriptions.create_subscription)),
        _route("GET", SUBSCRIPTION, subscriptions.get_subscription),
        _route("PATCH", SUBSCRIPTION, turn(subscriptions.edit_subscription)),
        _route("DELETE", SUBSCRIPTION, turn(subscriptions.delete_subscription)),
    ]


def _route(method: str, pattern: str, handler: Handler, body_limit: int = limits.CONTROL_REQUEST_BYTES) -> Route:
    return Route(method, pattern, handler, body_limit=body_limit)
