"""Every path of Cloudflare Queues and who serves it."""

from collections.abc import Sequence

from couriermq.dialects.cloudflare import (
    accounts,
    analytics,
    binding,
    consumers,
    legacy,
    limits,
    messages,
    purges,
    queues,
    subscriptions,
)
from couriermq.web.call import Handler, Route

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
GRAPHQL = PREFIX + "/graphql"
LEGACY_QUEUES = ACCOUNT + "/workers/queues"
LEGACY_QUEUE = LEGACY_QUEUES + "/{queue_id}"
LEGACY_CONSUMERS = LEGACY_QUEUE + "/consumers"
LEGACY_CONSUMER = LEGACY_CONSUMERS + "/{consumer_id}"


def routes() -> Sequence[Route]:
    return (
        *_message_routes(),
        *_queue_routes(),
        *_consumer_routes(),
        *_subscription_routes(),
        *_legacy_routes(),
        *_account_routes(),
        *_analytics_routes(),
    )


def _message_routes() -> list[Route]:
    return [
        _route("POST", MESSAGES, messages.push, limits.PUSH_REQUEST_BYTES),
        _route("POST", MESSAGES + "/batch", messages.push_batch, limits.BATCH_REQUEST_BYTES),
        _route("POST", MESSAGES + "/pull", messages.pull),
        _route("POST", MESSAGES + "/ack", messages.ack, limits.ACK_REQUEST_BYTES),
        _route("POST", MESSAGES + "/peek", messages.peek),
        _route("POST", MESSAGES + "/preview", messages.peek),
        _route("POST", MESSAGES + "/purge", messages.purge),
        _route("POST", BINDING + "/message", binding.message, limits.BATCH_REQUEST_BYTES),
        _route("POST", BINDING + "/batch", binding.batch, limits.BATCH_REQUEST_BYTES),
        _route("GET", BINDING + "/metrics", binding.metrics),
    ]


def _queue_routes() -> list[Route]:
    return [
        _route("GET", QUEUES, queues.list_queues),
        _route("POST", QUEUES, queues.create_queue),
        _route("GET", QUEUE, queues.get_queue),
        _route("PUT", QUEUE, queues.replace_queue),
        _route("PATCH", QUEUE, queues.edit_queue),
        _route("DELETE", QUEUE, queues.delete_queue),
        _route("GET", QUEUE + "/metrics", queues.get_metrics),
        _route("POST", QUEUE + "/purge", purges.start_purge),
        _route("GET", QUEUE + "/purge", purges.purge_status),
    ]


def _consumer_routes() -> list[Route]:
    return [
        _route("GET", CONSUMERS, consumers.list_consumers),
        _route("POST", CONSUMERS, consumers.create_consumer),
        _route("GET", CONSUMER, consumers.get_consumer),
        _route("PUT", CONSUMER, consumers.replace_consumer),
        _route("DELETE", CONSUMER, consumers.delete_consumer),
    ]


def _subscription_routes() -> list[Route]:
    return [
        _route("GET", SUBSCRIPTIONS, subscriptions.list_subscriptions),
        _route("POST", SUBSCRIPTIONS, subscriptions.create_subscription),
        _route("GET", SUBSCRIPTION, subscriptions.get_subscription),
        _route("PATCH", SUBSCRIPTION, subscriptions.edit_subscription),
        _route("DELETE", SUBSCRIPTION, subscriptions.delete_subscription),
    ]


def _legacy_routes() -> list[Route]:
    return [
        _route("GET", LEGACY_QUEUES, queues.list_queues),
        _route("POST", LEGACY_QUEUES, queues.create_queue),
        _route("GET", LEGACY_QUEUE, queues.get_queue),
        _route("PUT", LEGACY_QUEUE, queues.edit_queue),
        _route("DELETE", LEGACY_QUEUE, queues.delete_queue),
        _route("GET", LEGACY_CONSUMERS, consumers.list_consumers),
        _route("POST", LEGACY_CONSUMERS, legacy.create_consumer),
        _route("GET", LEGACY_CONSUMER, legacy.get_consumer),
        _route("PUT", LEGACY_CONSUMER, legacy.replace_consumer),
        _route("DELETE", LEGACY_CONSUMER, legacy.delete_consumer),
    ]


def _account_routes() -> list[Route]:
    return [
        _route("GET", PREFIX + "/user", accounts.get_user),
        _route("GET", PREFIX + "/user/tokens/verify", accounts.verify_token),
        _route("GET", PREFIX + "/accounts", accounts.list_accounts),
        _route("GET", ACCOUNT, accounts.get_account),
        _route("GET", ACCOUNT + "/tokens/verify", accounts.verify_account_token),
        _route("GET", PREFIX + "/memberships", accounts.list_memberships),
    ]


def _analytics_routes() -> list[Route]:
    return [_route("POST", GRAPHQL, analytics.query, limits.QUERY_REQUEST_BYTES)]


def _route(method: str, pattern: str, handler: Handler, body_limit: int = limits.CONTROL_REQUEST_BYTES) -> Route:
    return Route(method, pattern, handler, body_limit=body_limit, trailing_slash=True)
