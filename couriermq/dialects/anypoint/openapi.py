"""The OpenAPI document of this dialect, put together from its operations and their shapes."""

import re
from typing import Any

from couriermq import __version__
from couriermq.dialects.anypoint.openapi_operations import OPERATIONS, Operation
from couriermq.dialects.anypoint.openapi_schemas import SCHEMAS, SECURITY, Schema, array, ref

DESCRIPTION = """\
Anypoint MQ as Courier speaks it: the broker under `/api/v1`, administration under `/mq/admin/api`, statistics under
`/mq/stats/api`, tokens and what a token gives access to under `/accounts`. Organization and environment are one tenant
of Courier; every region shows the same destinations. In strict mode an empty list is 204, and a batch of
acknowledgements answers one object.
"""

TOKENS = ("ClientToken", "Token", "LoginToken")
"""What callers get who prove themselves by the request itself."""

FAILURES = {
    400: "The request is wrong; the answer says what to change.",
    401: "No token, or one that has ended.",
    403: "A good token without the scope.",
    404: "Something that the path names is not there.",
    409: "The present state forbids it.",
    413: "The payload is too large.",
    429: "Over the credential's limit; Retry-After says when to come back.",
    503: "Writes are refused for now; Retry-After says when to come back.",
}


def document() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Courier: Anypoint MQ", "version": __version__, "description": DESCRIPTION},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": SCHEMAS, "securitySchemes": SECURITY},
    }


def _operation(operation: Operation) -> Schema:
    described: Schema = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [_service(operation)],
        "parameters": [*_path_parameters(operation.path), *operation.parameters],
        "responses": _responses(operation),
        "security": [] if _is_public(operation) else _security(operation),
    }
    if operation.takes:
        described["requestBody"] = {"required": not operation.optional, "content": _takes(operation)}
    return described


def _service(operation: Operation) -> str:
    if operation.gives in TOKENS:
        return "tokens"
    services = {"broker": "/api/", "admin": "/mq/admin/", "stats": "/mq/stats/", "accounts": "/accounts/"}
    return next(service for service, prefix in services.items() if operation.path.startswith(prefix))


def _is_public(operation: Operation) -> bool:
    return operation.gives in TOKENS


def _security(operation: Operation) -> list[Schema]:
    scopes = [list(operation.scopes)] if operation.needs_all else [[scope] for scope in operation.scopes]
    return [{"bearer": []}, *({"connectedApp": needed} for needed in scopes)]


def _path_parameters(path: str) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _takes(operation: Operation) -> Schema:
    schema = _shape(operation.takes or "")
    kinds = ["application/json"]
    if _is_public(operation):
        kinds = ["application/x-www-form-urlencoded", "multipart/form-data", *kinds]
    return {kind: {"schema": schema} for kind in kinds}


def _shape(text: str) -> Schema:
    if "|" in text:
        return {"oneOf": [_shape(part) for part in text.split("|")]}
    return array(ref(text[1:-1])) if text.startswith("[") else ref(text)


def _responses(operation: Operation) -> dict[str, Schema]:
    responses = {str(status): _failure(operation, status, text) for status, text in FAILURES.items()}
    responses[str(operation.status)] = _success(operation)
    if operation.may_be_empty:
        responses["204"] = {"description": "Nothing to show."}
    return dict(sorted(responses.items()))


def _success(operation: Operation) -> Schema:
    if operation.gives is None:
        return {"description": "Done."}
    return {"description": "Done.", "content": {"application/json": {"schema": _shape(operation.gives)}}}


def _failure(operation: Operation, status: int, text: str) -> Schema:
    shape = "Failure" if operation.path.startswith("/api/") else "AdminFailure"
    if operation.path.startswith("/accounts/"):
        shape = "AccountsFailure"
    if status == 413 and operation.id == "publishBatch":
        shape = "[Outcome]|Failure"
    return {"description": text, "content": {"application/json": {"schema": _shape(shape)}}}
