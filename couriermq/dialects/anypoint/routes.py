"""Every path of the three services and of the accounts service, and who answers it."""

from collections.abc import Sequence

from couriermq.dialects.anypoint import (
    accounts,
    admin_exchanges,
    admin_queues,
    clients,
    consuming,
    environments,
    fallback,
    publishing,
    regions,
    tokens,
)
from couriermq.dialects.anypoint.limits import REQUEST_BYTES, SMALL_BYTES, TOKEN_BYTES
from couriermq.dialects.anypoint.stats import Stats
from couriermq.web.call import Handler, Route

PREFIXES = ("/api/v1", "/mq/admin/api", "/mq/stats/api", "/accounts")

ENVIRONMENT = "/organizations/{organization}/environments/{environment}"
BROKER = f"/api/v1{ENVIRONMENT}"
"""What version 4 of the Mule connector has as its base URL; version 3 has `/api/v1`."""
MESSAGES = f"{BROKER}/destinations/{{destination}}/messages"
ADMIN = "/mq/admin/api/v1"
REGION = f"{ENVIRONMENT}/regions/{{region}}"
QUEUE = "/destinations/queues/{queue}"
EXCHANGE = "/destinations/exchanges/{exchange}"
BINDING = "/bindings/exchanges/{exchange}/queues/{queue}"
STATS = "/mq/stats/api/v1"
ACCOUNTS = "/accounts/api"


def routes(stats: Stats) -> list[Route]:
    return [*_broker(), *_admin(), *_stats(stats), *_accounts()]


def _broker() -> list[Route]:
    return [
        Route("GET", MESSAGES, consuming.consume, body_limit=SMALL_BYTES, waits=True),
        Route("HEAD", MESSAGES, consuming.refuse_head),
        Route("PUT", MESSAGES, publishing.publish_batch, body_limit=REQUEST_BYTES),
        Route("PUT", f"{MESSAGES}/{{message}}", publishing.publish_one, body_limit=REQUEST_BYTES),
        *_small(
            ("DELETE", MESSAGES, consuming.ack_batch),
            ("PATCH", f"{MESSAGES}/locks", consuming.extend_batch),
            ("DELETE", f"{MESSAGES}/locks", consuming.nack_batch),
            ("DELETE", f"{MESSAGES}/{{message}}", consuming.ack_one),
            ("PATCH", f"{MESSAGES}/{{message}}/locks/{{lock}}", consuming.extend_one),
            ("DELETE", f"{MESSAGES}/{{message}}/locks/{{lock}}", consuming.nack_one),
        ),
        *_public("/api/v1/authorize", tokens.authorize),
        *_public(f"{BROKER}/authorize", tokens.authorize),
    ]


def _admin() -> list[Route]:
    region = f"{ADMIN}{REGION}"
    client_apps = f"{ADMIN}{ENVIRONMENT}/clients"
    return [
        *_small(
            ("DELETE", f"{ADMIN}/organizations/{{organization}}", environments.delete_organization),
            ("DELETE", f"{ADMIN}{ENVIRONMENT}", environments.delete_environment),
            ("GET", client_apps, clients.list_clients),
            ("PUT", client_apps, clients.put_client),
            ("POST", f"{client_apps}/{{client}}", clients.regenerate_secret),
            ("DELETE", f"{client_apps}/{{client}}", clients.delete_client),
            ("GET", f"{ADMIN}{ENVIRONMENT}/regions", regions.list_regions),
            ("GET", region, regions.read_region),
            ("GET", f"{region}/destinations", admin_queues.list_destinations),
            ("GET", f"{region}{QUEUE}", admin_queues.read_queue),
            ("PUT", f"{region}{QUEUE}", admin_queues.put_queue),
            ("PATCH", f"{region}{QUEUE}", admin_queues.patch_queue_v1),
            ("DELETE", f"{region}{QUEUE}", admin_queues.delete_queue),
            ("DELETE", f"{region}{QUEUE}/messages", admin_queues.purge_queue),
            ("PUT", f"{region}{QUEUE}/fallback", fallback.put_fallback),
            ("PATCH", f"/mq/admin/api/v2{REGION}{QUEUE}", admin_queues.patch_queue_v2),
            ("GET", f"{region}{EXCHANGE}", admin_exchanges.read_exchange),
            ("PUT", f"{region}{EXCHANGE}", admin_exchanges.put_exchange),
            ("PATCH", f"{region}{EXCHANGE}", admin_exchanges.patch_exchange),
            ("DELETE", f"{region}{EXCHANGE}", admin_exchanges.delete_exchange),
            ("GET", f"{region}/bindings/exchanges/{{exchange}}", admin_exchanges.list_bindings_of_exchange),
            ("GET", f"{region}/bindings/queues/{{queue}}", admin_exchanges.list_bindings_of_queue),
            ("GET", f"{region}{BINDING}", admin_exchanges.read_binding),
            ("PUT", f"{region}{BINDING}", admin_exchanges.put_binding),
            ("DELETE", f"{region}{BINDING}", admin_exchanges.delete_binding),
            ("PUT", f"{region}{BINDING}/rules/routing", admin_exchanges.put_rules),
            ("DELETE", f"{region}{BINDING}/rules/routing", admin_exchanges.delete_rules),
        ),
        *_public(f"{ADMIN}/authorize", tokens.authorize),
    ]


def _stats(stats: Stats) -> Sequence[Route]:
    return _small(
        ("GET", f"{STATS}/organizations/{{organization}}", stats.organization_usage),
        ("GET", f"{STATS}{ENVIRONMENT}", stats.environment_usage),
        ("GET", f"{STATS}{REGION}/queues", stats.queues_now),
        ("GET", f"{STATS}{REGION}/queues/{{queue}}", stats.queue_history),
        ("GET", f"{STATS}{REGION}/exchanges/{{exchange}}", stats.exchange_history),
    )


def _accounts() -> list[Route]:
    organization = f"{ACCOUNTS}/organizations/{{organization}}"
    return [
        *_small(
            ("GET", f"{ACCOUNTS}/me", accounts.read_me),
            ("GET", organization, accounts.read_organization),
            ("GET", f"{organization}/environments", accounts.list_environments),
            ("GET", f"{organization}/environments/{{environment}}", accounts.read_environment),
        ),
        *_public("/accounts/oauth2/token", tokens.authorize),
        *_public("/accounts/api/v2/oauth2/token", tokens.connected_app_token),
        *_public("/accounts/login", tokens.login),
        *_public("/accounts/api/login", tokens.login),
    ]


def _small(*rows: tuple[str, str, Handler]) -> list[Route]:
    return [Route(method, pattern, handler, body_limit=SMALL_BYTES) for method, pattern, handler in rows]


def _public(pattern: str, handler: Handler) -> list[Route]:
    return [Route("POST", pattern, handler, public=True, body_limit=TOKEN_BYTES)]
