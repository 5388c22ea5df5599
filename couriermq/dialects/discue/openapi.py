"""The OpenAPI document of this dialect: a table of operations over the shapes in `openapi_schemas`."""

import re
from typing import Any

import msgspec

from couriermq import __version__
from couriermq.dialects.discue import limits, routes
from couriermq.dialects.discue.errors import TITLES
from couriermq.dialects.discue.openapi_schemas import SCHEMAS, Schema, array, ref

DESCRIPTION = """\
discue.io as Courier speaks it: queues whose messages are pushed to HTTP listeners. Every path is served without `/v1`
too. Every success is a 200 with `_links`; every failure has exactly a title and a status, and the header
`X-Courier-Detail` says in a sentence what was wrong. Things have a `name` and an `alias`, which are the same.
"""

PRETTY: Schema = {"name": "pretty", "in": "query", "schema": {"type": "boolean"}, "allowEmptyValue": True}
PAGES: tuple[Schema, ...] = (
    {"name": "page", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": limits.PAGE_MOST}},
    {"name": "per_page", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": limits.PER_PAGE_MOST}},
)
REVEAL: Schema = {"name": "reveal", "in": "query", "schema": {"type": "boolean"}}
EVENTS: tuple[Schema, ...] = (
    {"name": "events", "in": "query", "schema": {"enum": ["all", "api_keys", "listeners", "messages", "queues"]}},
    {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": limits.EVENT_COUNT_MOST}},
    {"name": "startAfter", "in": "query", "schema": {"type": "integer", "minimum": 0}},
    {"name": "startAfterId", "in": "query", "schema": {"type": "string"}},
)
FAILURES = (400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 423, 429, 500, 503)


class Operation(msgspec.Struct, frozen=True):
    """`gives` is the word that holds the result and its shape, a list in brackets; none means links alone."""

    method: str
    path: str
    id: str
    summary: str
    takes: str | None = None
    gives: tuple[str, str] | None = None
    parameters: tuple[Schema, ...] = ()
    optional: bool = True
    """Whether the body may be left out."""


OPERATIONS = (
    Operation("GET", "/queues", "listQueues", "List queues", None, ("queues", "[QueueRef]"), PAGES),
    Operation("POST", "/queues", "createQueue", "Create a queue", "QueueRequest", ("queue", "Queue")),
    Operation("GET", routes.QUEUE, "getQueue", "Read a queue", None, ("queue", "Queue")),
    Operation("PUT", routes.QUEUE, "updateQueue", "Change a queue, set or remove its schema", "QueueRequest",
              ("queue", "Queue")),
    Operation("DELETE", routes.QUEUE, "deleteQueue", "Delete a queue, its listeners and its messages"),
    Operation("GET", routes.SCHEMA, "getSchema", "Read a queue's schema", None, ("schema", "MessageSchema")),
    Operation("GET", "/listeners", "listAllListeners", "List listeners of all queues", None,
              ("listeners", "[Listener]"), PAGES),
    Operation("GET", routes.LISTENERS, "listListeners", "List listeners of a queue", None,
              ("listeners", "[Listener]"), PAGES),
    Operation("POST", routes.LISTENERS, "createListener", "Create a listener", "ListenerRequest",
              ("listener", "Listener"), optional=False),
    Operation("GET", routes.LISTENER, "getListener", "Read a listener", None, ("listener", "Listener"),
              (REVEAL,)),
    Operation("PUT", routes.LISTENER, "updateListener", "Change a listener", "ListenerRequest",
              ("listener", "Listener")),
    Operation("DELETE", routes.LISTENER, "deleteListener", "Delete a listener with all that waits for it"),
    Operation("POST", routes.REPLAY, "replay", "Deliver messages again to a listener", "ReplayRequest",
              ("replay", "Replay"), optional=False),
    Operation("GET", "/messages", "listAllMessages", "List messages of all queues", None,
              ("messages", "[MessageRef]"), PAGES),
    Operation("GET", routes.MESSAGES, "listMessages", "List messages of a queue", None,
              ("messages", "[MessageRef]"), PAGES),
    Operation("POST", routes.MESSAGES, "addMessage", "Add a message", "MessageRequest", ("message", "MessageRef"),
              optional=False),
    Operation("GET", routes.MESSAGE, "getMessage", "Read a message", None, ("message", "Message")),
    Operation("PUT", routes.MESSAGE, "updateMessage", "Rename a message", "MessageChange", ("message", "Message")),
    Operation("DELETE", routes.MESSAGE, "deleteMessage", "Delete a message"),
    Operation("GET", "/api_keys", "listApiKeys", "List API keys", None, ("api_keys", "[ApiKey]"), PAGES),
    Operation("POST", "/api_keys", "createApiKey", "Create an API key", "ApiKeyRequest", ("api_key", "NewApiKey")),
    Operation("GET", routes.KEY, "getApiKey", "Read an API key", None, ("api_key", "ApiKey")),
    Operation("PUT", routes.KEY, "updateApiKey", "Change an API key", "ApiKeyRequest", ("api_key", "ApiKey")),
    Operation("DELETE", routes.KEY, "deleteApiKey", "Delete an API key"),
    Operation("GET", "/api_clients", "listApiClients", "List API clients", None, ("api_clients", "[ApiClient]"),
              PAGES),
    Operation("POST", "/api_clients", "createApiClient", "Create an API client", "ApiClientRequest",
              ("api_client", "ApiClient")),
    Operation("GET", routes.CLIENT, "getApiClient", "Read an API client", None, ("api_client", "ApiClient")),
    Operation("PUT", routes.CLIENT, "updateApiClient", "Rename an API client", "ApiClientRequest",
              ("api_client", "ApiClient")),
    Operation("GET", "/domains", "listDomains", "List domains", None, ("domains", "[Domain]"), PAGES),
    Operation("POST", "/domains", "createDomain", "Create a domain", "DomainRequest", ("domain", "Domain"),
              optional=False),
    Operation("GET", routes.DOMAIN, "getDomain", "Read a domain, trying its challenge", None, ("domain", "Domain")),
    Operation("PUT", routes.DOMAIN, "updateDomain", "Rename a domain, renewing an expired challenge",
              "DomainRequest", ("domain", "Domain")),
    Operation("DELETE", routes.DOMAIN, "deleteDomain", "Delete a domain"),
    Operation("GET", "/events", "listEvents", "What has happened in the last day, oldest first", None,
              ("events", "[Event]"), EVENTS),
    Operation("GET", "/stats/messages", "getStats", "Counts of the last day", None,
              ("aggregated_api_usage_events", "Stats")),
)  # fmt: skip


def document() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        path = paths.setdefault(routes.VERSION + operation.path, {"parameters": _path_parameters(operation.path)})
        path[operation.method.lower()] = _written(operation, operation.id)
        if operation.method == "POST":
            summary = f"{operation.summary}, as older programs do"
            older = msgspec.structs.replace(operation, method="PUT", summary=summary)
            path["put"] = _written(older, f"{operation.id}ByPut")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Courier: discue.io", "version": __version__, "description": DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-API-KEY"}},
        },
    }


def _path_parameters(path: str) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _written(operation: Operation, operation_id: str) -> dict[str, Any]:
    written: dict[str, Any] = {
        "operationId": operation_id,
        "summary": operation.summary,
        "tags": [operation.path.split("/")[3 if operation.path.count("/") > 2 else 1]],
        "parameters": [PRETTY, *operation.parameters],
        "responses": {"200": _content("Done", _success(operation)), **_failures()},
    }
    if operation.takes:
        schema = {"application/json": {"schema": ref(operation.takes)}}
        written["requestBody"] = {"required": not operation.optional, "content": schema}
    return written


def _success(operation: Operation) -> Schema:
    properties = {"_links": ref("Links")}
    if operation.gives:
        word, name = operation.gives
        properties[word] = array(ref(name[1:-1])) if name.startswith("[") else ref(name)
    return {"type": "object", "properties": properties, "required": list(properties)}


def _failures() -> dict[str, Any]:
    return {str(status): _content(TITLES[status], ref("Failure")) for status in FAILURES}


def _content(description: str, schema: Schema) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
