"""The OpenAPI document of the native dialect, made from the table of operations and the structs they speak of."""

import re
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from itertools import combinations
from typing import Any

import msgspec

from couriermq import __version__
from couriermq.core import errors as core
from couriermq.core.errors import CourierError
from couriermq.core.model import Json
from couriermq.dialects.native.errors import ERRORS, URN, Problem, answer_for
from couriermq.dialects.native.operations import Batch, OneOf, Operation
from couriermq.dialects.native.routes import OPERATIONS
from couriermq.dialects.native.words import PLACES, TAGS, WORDS
from couriermq.web import errors as web

Object = dict[str, Json]

SHARED = (
    core.Invalid,
    web.MalformedRequest,
    core.Unauthenticated,
    core.Forbidden,
    core.TooManyRequests,
    core.Unavailable,
)
"""What every operation with a caller can fail with; one that takes a body also with these:"""
SHARED_BY_BODIES = (web.RequestTooLarge, web.RequestTimeout)

DESCRIPTION = """\
Courier's own API: the whole of the queue in its own words, a superset of what the other dialects can say.

Every call but the first names its caller by `Authorization: Bearer <token>`. Instants (`…_at`) are epoch milliseconds,
durations (`…_ms`) milliseconds. What a request leaves out has a default; what it holds beyond the fields listed here
is an error that names the field. Errors are `application/problem+json`; compare `type`, show `detail`.
"""

BINARY: Object = {"type": "string", "format": "binary"}
EVENT_STREAM = "text/event-stream"
SERVER_SENT_EVENT: Object = {
    "type": "object",
    "description": "One of the stream's events; `data` is a JSON text.",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}, "id": {"type": "string"}},
}
"""In OpenAPI 3.1 the schema of a stream is that of each event."""

_REF = "#/components/schemas/{name}"


def document() -> Object:
    """The whole document; built on demand, for it is asked for rarely."""
    structs = sorted(set(_structs()), key=lambda struct: struct.__name__)
    _, schemas = msgspec.json.schema_components(structs, ref_template=_REF)
    for struct in structs:
        _explain(struct, schemas[struct.__name__])
    schemas |= {batch.name: _batch_schema(batch) for batch in _batches()}
    for schema in schemas.values():
        _describe(schema)
        _widen(schema)
    schemas["Problem"]["properties"]["type"]["examples"] = [URN + answer.name for answer in ERRORS.values()]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Courier",
            "version": __version__,
            "summary": "The native API",
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This server"}],
        "security": [{"token": []}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": _paths(),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "responses": dict(sorted(_failures())),
            "parameters": {name: _place(name) for name in PLACES},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The root token, the secret of a credential, or an access token.",
                }
            },
        },
    }


# -- operations -----------------------------------------------------------------------------------------------


def _paths() -> Object:
    paths: Object = {}
    for operation in OPERATIONS:
        item = paths.setdefault(operation.path, {})
        names = re.findall(r"{(\w+)}", operation.path)
        if names:
            item["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in names]
        item[operation.method.lower()] = _operation(operation)
    return paths


def _operation(operation: Operation) -> Object:
    written: Object = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": _description(operation),
        "parameters": [*_query(operation), *_headers(operation)],
        "responses": {**_successes(operation), **_failure_refs(operation)},
    }
    if operation.takes is not None:
        content: Object = {"schema": _schema_of(operation.takes), "example": operation.example}
        written["requestBody"] = {
            "required": not operation.body_optional,
            "content": {"application/json": content},
        }
        for media in operation.takes_also:
            written["requestBody"]["content"][media] = {"schema": BINARY}
    if operation.public:
        written["security"] = []
    return written


def _description(operation: Operation) -> str:
    needs = f"Needs: {operation.needs}." if operation.needs else ""
    return "\n\n".join(text for text in (operation.description, needs) if text)


def _query(operation: Operation) -> Iterator[Object]:
    if operation.query is None:
        return
    schema = msgspec.json.schema_components([operation.query], ref_template=_REF)[1][operation.query.__name__]
    _widen(schema)
    for name, value in schema["properties"].items():
        yield {
            "name": name,
            "in": "query",
            "required": name in schema["required"],
            "description": WORDS[name],
            "schema": _not_null(value),
        }


def _headers(operation: Operation) -> Iterator[Object]:
    for name, text in operation.headers.items():
        yield {"name": name, "in": "header", "required": False, "description": text, "schema": {"type": "string"}}


def _successes(operation: Operation) -> Object:
    return {str(status): _success(operation, status, shape) for status, shape in sorted(operation.gives.items())}


def _success(operation: Operation, status: int, shape: Any) -> Object:
    reply: Object = {"description": HTTPStatus(status).phrase}
    if operation.answer_headers:
        reply["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in operation.answer_headers.items()
        }
    if shape is not None:
        reply["content"] = {"application/json": {"schema": _schema_of(shape)}}
        for media in operation.streams:
            reply["content"][media] = {"schema": SERVER_SENT_EVENT if media == EVENT_STREAM else BINARY}
    return reply


# -- failures -------------------------------------------------------------------------------------------------


def _errors_of(operation: Operation) -> dict[int, list[type[CourierError]]]:
    """The errors of an operation by status."""
    possible: list[type[CourierError]] = [*(() if operation.public else SHARED), *operation.fails]
    if operation.takes is not None:
        possible += SHARED_BY_BODIES
    by_status: dict[int, list[type[CourierError]]] = {}
    for error in possible:
        answer = answer_for(error)
        assert answer is not None
        by_status.setdefault(answer.status, []).append(error)
    return dict(sorted(by_status.items()))


def _failure_refs(operation: Operation) -> Object:
    return {
        str(status): {"$ref": f"#/components/responses/{_failure_name(errors)}"}
        for status, errors in _errors_of(operation).items()
    }


def _failures() -> Iterator[tuple[str, Object]]:
    for operation in OPERATIONS:
        for status, errors in _errors_of(operation).items():
            yield _failure_name(errors), _failure(status, errors)


def _failure_name(errors: list[type[CourierError]]) -> str:
    return "Or".join(error.__name__ for error in errors)


def _failure(status: int, errors: list[type[CourierError]]) -> Object:
    answers = [ERRORS[error] for error in errors]
    reply: Object = {
        "description": ". ".join(answer.title for answer in answers) + ".",
        "content": {
            "application/problem+json": {
                "schema": {"$ref": _REF.format(name="Problem")},
                "examples": {
                    a.name: {"value": {"type": URN + a.name, "title": a.title, "status": status, "detail": "…"}}
                    for a in answers
                },
            }
        },
    }
    if status in (429, 503):
        reply["headers"] = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
    return reply


# -- schemas --------------------------------------------------------------------------------------------------


def _shapes(shape: Any) -> Iterator[Any]:
    """A shape and all that it is made of."""
    yield shape
    if isinstance(shape, OneOf | Batch):
        for part in shape.shapes:
            yield from _shapes(part)


def _spoken() -> Iterator[Any]:
    for operation in OPERATIONS:
        for shape in (operation.takes, *operation.gives.values()):
            yield from _shapes(shape)


def _structs() -> Iterator[type[msgspec.Struct]]:
    yield Problem
    yield from (shape for shape in _spoken() if isinstance(shape, type))


def _batches() -> Iterator[Batch]:
    yield from (shape for shape in _spoken() if isinstance(shape, Batch))


def _schema_of(shape: Any) -> Object:
    match shape:
        case OneOf(shapes=shapes):
            return {"oneOf": [_schema_of(part) for part in shapes]}
        case Batch(name=name):
            return {"$ref": _REF.format(name=name)}
    return {"$ref": _REF.format(name=shape.__name__)}


def _batch_schema(batch: Batch) -> Object:
    items = {"oneOf": [_schema_of(part) for part in batch.shapes]}
    return {
        "title": batch.name,
        "description": "One outcome for each item, in the order of the items.",
        "type": "object",
        "properties": {"results": {"type": "array", "items": items}},
        "required": ["results"],
    }


def _explain(struct: type[msgspec.Struct], schema: Object) -> None:
    """What a struct says of itself beyond its types."""
    if choices := getattr(struct, "one_of", None):
        schema["x-one-of"] = choices
        schema["not"] = {"anyOf": [{"required": pair} for pair in combinations(choices, 2)] + [_without(choices)]}


def _without(names: Sequence[str]) -> Object:
    """None of the names is there. Generators of clients take `oneOf` for a union of types but pass over `not`."""
    return {"not": {"anyOf": [{"required": [name]} for name in names]}}


def _describe(schema: Object) -> None:
    for name, value in schema.get("properties", {}).items():
        if "$ref" not in value and name in WORDS:
            value.setdefault("description", WORDS[name])


def _widen(schema: Json) -> None:
    """Say that integers have 64 bits, for languages that would give them fewer."""
    if isinstance(schema, dict):
        if schema.get("type") == "integer":
            schema["format"] = "int64"
        for part in schema.values():
            _widen(part)
    elif isinstance(schema, list):
        for part in schema:
            _widen(part)


def _not_null(schema: Object) -> Object:
    """A query parameter is there or not; it is never null."""
    if "anyOf" in schema:
        kept = [choice for choice in schema["anyOf"] if choice != {"type": "null"}]
        schema = kept[0] if len(kept) == 1 else {**schema, "anyOf": kept}
    return {name: value for name, value in schema.items() if (name, value) != ("default", None)}


def _place(name: str) -> Object:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": PLACES[name],
        "schema": {"type": "string", "minLength": 1},
    }
