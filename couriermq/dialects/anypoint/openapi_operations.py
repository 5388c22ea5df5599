"""Every operation of this dialect, as its OpenAPI document lists them."""

import msgspec

from couriermq.dialects.anypoint import limits, rights, routes
from couriermq.dialects.anypoint.openapi_schemas import INTEGER, STRING, Schema


def argument(name: str, schema: Schema, text: str = "", *, required: bool = False) -> Schema:
    return {"name": name, "in": "query", "required": required, "schema": schema, "description": text}


def number(name: str, low: int, high: int, default: int, text: str) -> Schema:
    return argument(name, {**INTEGER, "minimum": low, "maximum": high, "default": default}, text)


def one_of(name: str, *values: str) -> Schema:
    return argument(name, {"enum": list(values), "default": values[0]})


CONSUME = (
    number("pollingTime", 0, limits.POLLING_MS, limits.POLLING_DEFAULT_MS, "How long to wait, in milliseconds."),
    number("batchSize", 1, limits.RECEIVE_COUNT, 1, "How many messages to take at most."),
    argument("lockTtl", {**INTEGER, "minimum": 0, "maximum": limits.LOCK_MS}, "Milliseconds; else the queue decides."),
    one_of("payloadVisibility", "full", "none", "conditional"),
)
PAGE = (
    argument("startsWith", STRING, "Only names that start so; required in strict mode."),
    argument("offset", {**INTEGER, "minimum": 0, "default": 0}),
    argument("limit", {**INTEGER, "minimum": 0, "default": limits.LIST_COUNT}),
)
DESTINATION_IDS = argument("destinationIds", STRING, "Only these: separated by commas, or the parameter repeated.")
DESTINATIONS = (
    one_of("destinationType", "all", "queue", "exchange"),
    one_of("inclusion", "all", "minimal"),
    DESTINATION_IDS,
    *PAGE,
)
DETAIL = (one_of("inclusion", "minimal", "all"),)
DATES = (
    argument("startDate", STRING, "An RFC 1123 or an ISO 8601 date.", required=True),
    argument("endDate", STRING, "An RFC 1123 or an ISO 8601 date.", required=True),
)
WINDOW = (*DATES, argument("period", {**INTEGER, "minimum": 1, "maximum": 86_400}, "Seconds.", required=True))
USAGE = (*DATES, argument("period", {"enum": ["1hour", "1day", "1month"]}, required=True))
LIVE = ({**DESTINATION_IDS, "required": True},)


class Operation(msgspec.Struct, frozen=True):
    """`takes` and `gives` name shapes, in brackets for a list of them; no `gives` is an empty answer."""

    method: str
    path: str
    id: str
    summary: str
    takes: str | None = None
    gives: str | None = None
    status: int = 200
    scopes: tuple[str, ...] = ()
    parameters: tuple[Schema, ...] = ()
    optional: bool = False
    """Whether the body may be left out."""
    may_be_empty: bool = False
    """Whether 204 stands for nothing to show."""
    needs_all: bool = False
    """Whether all of the scopes are needed, not just one."""


_M, _R, _E = routes.MESSAGES, routes.ADMIN + routes.REGION, routes.ADMIN + routes.ENVIRONMENT
_Q, _X, _B = _R + routes.QUEUE, _R + routes.EXCHANGE, _R + routes.BINDING
_S, _A, _O = routes.STATS, routes.ACCOUNTS, f"{routes.ACCOUNTS}/organizations/{{organization}}"
_PUBLISH, _SUBSCRIBE, _ADMIN, _LOOK = (rights.PUBLISH,), (rights.SUBSCRIBE,), (rights.ADMINISTER,), rights.LOOK
_CLIENTS, _STATS = (rights.MANAGE_CLIENTS,), rights.LOOK_AT_STATS

OPERATIONS = (
    Operation(
        "GET", _M, "consume", "Take messages and lock them", None, "[Message]", 200, _SUBSCRIBE, CONSUME,
        may_be_empty=True,
    ),
    Operation("PUT", _M, "publishBatch", "Publish 1 to 10 messages", "[Publication]", "[Outcome]", 200, _PUBLISH),
    Operation("DELETE", _M, "ackBatch", "Acknowledge messages", "[Lock]", "[Outcome]|Outcome", 200, _SUBSCRIBE),
    Operation(
        "PATCH", f"{_M}/locks", "extendBatch", "Change the TTL of locks", "[LockTtl]", "[Outcome]", 200,
        (*_SUBSCRIBE, *_PUBLISH),
    ),
    Operation(
        "DELETE", f"{_M}/locks", "nackBatch", "Give messages back", "[Lock]", "[Outcome]|Outcome", 200, _SUBSCRIBE,
    ),
    Operation("PUT", f"{_M}/{{message}}", "publish", "Publish a message", "Publication", "Outcome", 201, _PUBLISH),
    Operation("DELETE", f"{_M}/{{message}}", "ack", "Acknowledge a message", "Lock", "Outcome", 200, _SUBSCRIBE),
    Operation(
        "PATCH", f"{_M}/{{message}}/locks/{{lock}}", "extend", "Change the TTL of a lock", "LockTtl", "Outcome",
        200, (*_SUBSCRIBE, *_PUBLISH),
    ),
    Operation(
        "DELETE", f"{_M}/{{message}}/locks/{{lock}}", "nack", "Give a message back", None, "Outcome", 200,
        _SUBSCRIBE,
    ),
    Operation(
        "POST", "/api/v1/authorize", "authorize", "A client app's token", "Credentials", "ClientToken",
        optional=True,
    ),
    Operation(
        "POST", f"{routes.BROKER}/authorize", "authorizeInEnvironment", "A client app's token", "Credentials",
        "ClientToken", optional=True,
    ),
    Operation(
        "POST", f"{routes.ADMIN}/authorize", "authorizeAdmin", "A client app's token", "Credentials",
        "ClientToken", optional=True,
    ),
    Operation(
        "POST", "/accounts/oauth2/token", "clientToken", "A client app's token", "Credentials", "ClientToken",
        optional=True,
    ),
    Operation(
        "POST", "/accounts/api/v2/oauth2/token", "connectedAppToken", "A connected app's token", "Credentials",
        "Token", optional=True,
    ),
    Operation("POST", "/accounts/login", "login", "A person's token", "Login", "LoginToken"),
    Operation("POST", "/accounts/api/login", "loginApi", "A person's token", "Login", "LoginToken"),
    Operation("GET", f"{_A}/me", "readMe", "The caller and its organizations", None, "Me"),
    Operation("GET", _O, "readOrganization", "Read an organization", None, "Organization"),
    Operation(
        "GET", f"{_O}/environments", "listEnvironments", "List the environments of an organization", None,
        "Environments",
    ),
    Operation(
        "GET", f"{_O}/environments/{{environment}}", "readEnvironment", "Read an environment", None, "Environment",
    ),
    Operation(
        "DELETE", f"{routes.ADMIN}/organizations/{{organization}}", "deleteOrganization",
        "Empty all environments of an organization", None, None, 204, (*_ADMIN, *_CLIENTS), needs_all=True,
    ),
    Operation(
        "DELETE", _E, "deleteEnvironment", "Empty an environment", None, None, 204, (*_ADMIN, *_CLIENTS),
        needs_all=True,
    ),
    Operation(
        "GET", f"{_E}/clients", "listClients", "List client apps", None, "[Client]", 200,
        (rights.VIEW_CLIENTS, *_CLIENTS),
    ),
    Operation(
        "PUT", f"{_E}/clients", "createClient", "Create a client app", "ClientRequest", "Client", 200, _CLIENTS,
    ),
    Operation(
        "POST", f"{_E}/clients/{{client}}", "regenerateSecret", "Give a client app a new secret", None, "Client",
        200, _CLIENTS,
    ),
    Operation(
        "DELETE", f"{_E}/clients/{{client}}", "deleteClient", "Delete a client app", None, "Client", 200, _CLIENTS,
    ),
    Operation("GET", f"{_E}/regions", "listRegions", "List regions", None, "[Region]"),
    Operation("GET", _R, "readRegion", "Read a region", None, "Region"),
    Operation(
        "GET", f"{_R}/destinations", "listDestinations", "List queues and exchanges", None, "[Destination]", 200,
        _LOOK, DESTINATIONS, may_be_empty=True,
    ),
    Operation("GET", _Q, "readQueue", "Read a queue", None, "Queue", 200, _LOOK),
    Operation(
        "PUT", _Q, "putQueue", "Create a queue, or change what is given", "QueueRequest", "Queue", 200, _ADMIN,
        optional=True,
    ),
    Operation(
        "PATCH", _Q, "patchQueue", "Change a queue; dead letters not mentioned are switched off", "QueueRequest",
        "Queue", 200, _ADMIN, optional=True,
    ),
    Operation(
        "PATCH", f"/mq/admin/api/v2{routes.REGION}{routes.QUEUE}", "patchQueueV2",
        "Change what is given of a queue", "QueueRequest", "Queue", 200, _ADMIN, optional=True,
    ),
    Operation("DELETE", _Q, "deleteQueue", "Delete a queue and its messages", None, None, 204, _ADMIN),
    Operation(
        "DELETE", f"{_Q}/messages", "purgeQueue", "Delete the messages of a queue", None, None, 204,
        (*_ADMIN, rights.CLEAR),
    ),
    Operation(
        "PUT", f"{_Q}/fallback", "putFallback", "Switch failover on or off", "FallbackRequest", "Fallback", 201,
        _ADMIN,
    ),
    Operation("GET", _X, "readExchange", "Read an exchange", None, "Exchange", 200, _LOOK),
    Operation(
        "PUT", _X, "putExchange", "Create an exchange", "ExchangeRequest", "Exchange", 200, _ADMIN, optional=True,
    ),
    Operation(
        "PATCH", _X, "patchExchange", "Change an exchange", "ExchangeRequest", "Exchange", 200, _ADMIN,
        optional=True,
    ),
    Operation("DELETE", _X, "deleteExchange", "Delete an exchange and its bindings", None, None, 204, _ADMIN),
    Operation(
        "GET", f"{_R}/bindings/exchanges/{{exchange}}", "listBindingsOfExchange",
        "List the queues bound to an exchange", None, "[Binding]", 200, _LOOK, (*DETAIL, *PAGE), may_be_empty=True,
    ),
    Operation(
        "GET", f"{_R}/bindings/queues/{{queue}}", "listBindingsOfQueue", "List the exchanges bound to a queue",
        None, "[Binding]", 200, _LOOK, (*DETAIL, *PAGE), may_be_empty=True,
    ),
    Operation("GET", _B, "readBinding", "Read a binding", None, "Binding", 200, _LOOK, DETAIL),
    Operation("PUT", _B, "putBinding", "Bind a queue to an exchange", None, "Binding", 200, _ADMIN),
    Operation("DELETE", _B, "deleteBinding", "Unbind a queue from an exchange", None, None, 204, _ADMIN),
    Operation(
        "PUT", f"{_B}/rules/routing", "putRules", "Set the routing rule of a binding", "RulesRequest", "Binding",
        201, _ADMIN,
    ),
    Operation(
        "DELETE", f"{_B}/rules/routing", "deleteRules", "Remove the routing rule of a binding", None, None, 204,
        _ADMIN,
    ),
    Operation(
        "GET", f"{_S}/organizations/{{organization}}", "organizationUsage", "Usage of an organization", None,
        "[Usage]", 200, (rights.READ_STATS,), USAGE,
    ),
    Operation(
        "GET", f"{_S}{routes.ENVIRONMENT}", "environmentUsage", "Usage of an environment", None, "[Usage]", 200,
        (rights.READ_STATS,), USAGE,
    ),
    Operation(
        "GET", f"{_S}{routes.REGION}/queues", "queuesNow", "Live figures of queues", None, "[QueueFigures]", 200,
        _STATS, LIVE, may_be_empty=True,
    ),
    Operation(
        "GET", f"{_S}{routes.REGION}/queues/{{queue}}", "queueHistory", "The past of a queue", None,
        "QueueHistory", 200, _STATS, WINDOW,
    ),
    Operation(
        "GET", f"{_S}{routes.REGION}/exchanges/{{exchange}}", "exchangeHistory", "The past of an exchange", None,
        "ExchangeHistory", 200, _STATS, WINDOW,
    ),
)  # fmt: skip
