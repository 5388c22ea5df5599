"""The OpenAPI document of this dialect: a table of operations over the shapes in `openapi_schemas`."""

import re
from typing import Any

import msgspec

from couriermq import __version__
from couriermq.dialects.cloudflare import routes
from couriermq.dialects.cloudflare.openapi_schemas import SCHEMAS, Schema, array, ref

DESCRIPTION = """\
Cloudflare Queues as Courier speaks it. Every answer is an envelope, `{success, errors, messages, result}`, with
`result_info` around lists; the binding routes and GraphQL answer as their callers expect and need no envelope.
Ids are 32 hex digits. A queue is named by its id or, unlike at the vendor, by its name; a path may end in a slash.
"""

NAME: Schema = {"name": "name", "in": "query", "schema": array({"type": "string"}), "description": "Exactly this name."}
PAGE: Schema = {"name": "page", "in": "query", "schema": {"type": "integer", "minimum": 1}}
PER_PAGE: Schema = {"name": "per_page", "in": "query", "schema": {"type": "integer", "minimum": 1}}
ORDER: Schema = {"name": "order", "in": "query", "schema": {"enum": ["created_at", "name", "enabled", "source"]}}
DIRECTION: Schema = {"name": "direction", "in": "query", "schema": {"enum": ["asc", "desc"]}}
QUEUE_ID: Schema = {"name": "queue_id", "in": "query", "schema": {"type": "string"}}
FORMAT: Schema = {"name": "X-Msg-Fmt", "in": "header", "schema": {"enum": ["text", "json", "bytes", "v8"]}}
DELAY: Schema = {"name": "X-Msg-Delay-Secs", "in": "header", "schema": {"type": "integer", "minimum": 0}}


class Operation(msgspec.Struct, frozen=True):
    """`takes` and `gives` name shapes; a result in brackets is a list with `result_info`, None is null."""

    method: str
    path: str
    id: str
    summary: str
    takes: str | None = None
    gives: str | None = None
    optional: bool = False
    """Whether the body may be left out."""
    parameters: tuple[Schema, ...] = ()


OPERATIONS = (
    Operation("POST", routes.MESSAGES, "push", "Push a message", "PushRequest", "PushResult"),
    Operation("POST", routes.MESSAGES + "/batch", "bulk_push", "Push up to 100 messages", "BatchRequest", "PushResult"),
    Operation("POST", routes.MESSAGES + "/pull", "pull", "Lease messages", "PullRequest", "PullResult", True),
    Operation("POST", routes.MESSAGES + "/ack", "ack", "Acknowledge and retry", "AckRequest", "AckResult", True),
    Operation("POST", routes.MESSAGES + "/peek", "peek", "Look without leasing", "PeekRequest", "PeekResult", True),
    Operation("POST", routes.MESSAGES + "/preview", "preview", "An old peek", "PeekRequest", "PeekResult", True),
    Operation(
        "POST", routes.MESSAGES + "/purge", "purge_messages", "Remove chosen messages", "PurgeRefsRequest",
        "PurgeRefsResult",
    ),
    Operation("GET", routes.QUEUES, "list_queues", "List queues", None, "[Queue]", parameters=(NAME, PAGE, PER_PAGE)),
    Operation("POST", routes.QUEUES, "create_queue", "Create a queue", "QueueRequest", "Queue"),
    Operation("GET", routes.QUEUE, "get_queue", "Read a queue", None, "Queue"),
    Operation("PUT", routes.QUEUE, "update_queue", "Replace a queue's settings", "QueueRequest", "Queue"),
    Operation("PATCH", routes.QUEUE, "edit_queue", "Change some of a queue's settings", "QueueRequest", "Queue"),
    Operation("DELETE", routes.QUEUE, "delete_queue", "Delete a queue and its messages"),
    Operation("GET", routes.QUEUE + "/metrics", "get_metrics", "Read the backlog", None, "Metrics"),
    Operation("POST", routes.QUEUE + "/purge", "start_purge", "Remove every message", "PurgeRequest", "Queue"),
    Operation("GET", routes.QUEUE + "/purge", "purge_status", "How the last purge went", None, "PurgeStatus"),
    Operation("GET", routes.CONSUMERS, "list_consumers", "List the consumers, of which there is one at most", None,
              "[Consumer]"),
    Operation("POST", routes.CONSUMERS, "create_consumer", "Create the consumer", "ConsumerRequest", "Consumer"),
    Operation("GET", routes.CONSUMER, "get_consumer", "Read a consumer", None, "Consumer"),
    Operation("PUT", routes.CONSUMER, "update_consumer", "Replace or create a consumer", "ConsumerRequest", "Consumer"),
    Operation("DELETE", routes.CONSUMER, "delete_consumer", "Delete a consumer"),
    Operation(
        "GET", routes.SUBSCRIPTIONS, "list_subscriptions", "List event subscriptions", None, "[Subscription]",
        parameters=(PAGE, PER_PAGE, ORDER, DIRECTION, QUEUE_ID),
    ),
    Operation("POST", routes.SUBSCRIPTIONS, "create_subscription", "Keep an event subscription", "SubscriptionRequest",
              "Subscription"),
    Operation("GET", routes.SUBSCRIPTION, "get_subscription", "Read an event subscription", None, "Subscription"),
    Operation("PATCH", routes.SUBSCRIPTION, "update_subscription", "Change an event subscription", "SubscriptionChange",
              "Subscription"),
    Operation("DELETE", routes.SUBSCRIPTION, "delete_subscription", "Delete an event subscription", None,
              "Subscription"),
    Operation(
        "GET", routes.LEGACY_QUEUES, "list_queues_legacy", "List queues at the old path", None, "[Queue]",
        parameters=(NAME, PAGE, PER_PAGE),
    ),
    Operation("POST", routes.LEGACY_QUEUES, "create_queue_legacy", "Create a queue at the old path", "QueueRequest",
              "Queue"),
    Operation("GET", routes.LEGACY_QUEUE, "get_queue_legacy", "Read a queue at the old path", None, "Queue"),
    Operation("PUT", routes.LEGACY_QUEUE, "rename_queue_legacy", "Rename a queue at the old path", "QueueRequest",
              "Queue"),
    Operation("DELETE", routes.LEGACY_QUEUE, "delete_queue_legacy", "Delete a queue at the old path"),
    Operation("GET", routes.LEGACY_CONSUMERS, "list_consumers_legacy", "List the consumers at the old path", None,
              "[Consumer]"),
    Operation("POST", routes.LEGACY_CONSUMERS, "create_consumer_legacy", "Create the consumer at the old path",
              "LegacyConsumerRequest", "Consumer"),
    Operation("GET", routes.LEGACY_CONSUMER, "get_consumer_legacy", "Read a consumer by the name of its script", None,
              "Consumer"),
    Operation("PUT", routes.LEGACY_CONSUMER, "update_consumer_legacy", "Replace or create a consumer by its script",
              "LegacyConsumerRequest", "Consumer"),
    Operation("DELETE", routes.LEGACY_CONSUMER, "delete_consumer_legacy", "Delete a consumer by its script"),
    Operation("GET", routes.PREFIX + "/user", "get_user", "Read who calls", None, "User"),
    Operation("GET", routes.PREFIX + "/user/tokens/verify", "verify_token", "Check the caller's token", None, "Token"),
    Operation("GET", routes.PREFIX + "/accounts", "list_accounts", "List the caller's accounts", None, "[Account]",
              parameters=(NAME, PAGE, PER_PAGE)),
    Operation("GET", routes.ACCOUNT, "get_account", "Read an account", None, "Account"),
    Operation("GET", routes.ACCOUNT + "/tokens/verify", "verify_account_token", "Check the caller's token", None,
              "Token"),
    Operation("GET", routes.PREFIX + "/memberships", "list_memberships", "List the caller's memberships", None,
              "[Membership]", parameters=(PAGE, PER_PAGE)),
)  # fmt: skip

BARE_OPERATIONS = (
    Operation(
        "POST", routes.BINDING + "/message", "binding_send", "`send` of a queue binding", "binary", "BindingResult",
        parameters=(FORMAT, DELAY),
    ),
    Operation(
        "POST", routes.BINDING + "/batch", "binding_send_batch", "`sendBatch` of a queue binding", "BindingBatch",
        "BindingResult", parameters=(DELAY,),
    ),
    Operation("GET", routes.BINDING + "/metrics", "binding_metrics", "`metrics` of a queue binding", None,
              "BindingMetrics"),
    Operation("POST", routes.GRAPHQL, "graphql", "Query statistics in GraphQL", "GraphQLRequest", "GraphQLResult"),
)  # fmt: skip


def document() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, _path(operation))[operation.method.lower()] = _written(
            operation, _enveloped(operation.gives)
        )
    for operation in BARE_OPERATIONS:
        paths.setdefault(operation.path, _path(operation))[operation.method.lower()] = _written(
            operation, ref(operation.gives or "")
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Courier: Cloudflare Queues", "version": __version__, "description": DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"key": [], "email": []}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-Auth-Key"},
                "email": {"type": "apiKey", "in": "header", "name": "X-Auth-Email"},
            },
        },
    }


def _path(operation: Operation) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", operation.path)
    return {
        "parameters": [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    }


def _written(operation: Operation, result: Schema) -> dict[str, Any]:
    written: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "responses": {
            "200": {"description": "Done", "content": {"application/json": {"schema": result}}},
            "4XX": _failure("The caller must change something; `errors` says what"),
            "5XX": _failure("Try again later"),
        },
    }
    if operation.parameters:
        written["parameters"] = list(operation.parameters)
    if operation.takes:
        written["requestBody"] = {"required": not operation.optional, "content": _content(operation.takes)}
    return written


def _content(takes: str) -> dict[str, Any]:
    if takes == "binary":
        return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {"application/json": {"schema": ref(takes)}}


def _failure(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": ref("Failure")}}}


def _enveloped(gives: str | None) -> Schema:
    properties: dict[str, Schema] = {
        "success": {"const": True},
        "errors": {"type": "array", "maxItems": 0},
        "messages": array({"type": "string"}),
        "result": _result(gives),
    }
    required = ["success", "errors", "messages", "result"]
    if gives is not None and gives.startswith("["):
        properties["result_info"] = ref("PageInfo")
        required.append("result_info")
    return {"type": "object", "properties": properties, "required": required}


def _result(gives: str | None) -> Schema:
    if gives is None:
        return {"type": "null"}
    return array(ref(gives[1:-1])) if gives.startswith("[") else ref(gives)
