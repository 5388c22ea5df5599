"""What every dialect's run of Schemathesis against a live server has in common."""

from collections.abc import Mapping

import msgspec
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]


def schema_of(document: object) -> schemathesis.BaseSchema:
    """A dialect's own OpenAPI document, as a client would read it off the wire."""
    return schemathesis.openapi.from_dict(msgspec.json.decode(msgspec.json.encode(document)))


def aim(case: schemathesis.Case, known: Mapping[str, str]) -> None:
    """Have most requests meet something that is there, and none wait for a message."""
    for name, value in known.items():
        if name in case.path_parameters and len(str(case.path_parameters[name])) % 4:
            case.path_parameters[name] = value
    if isinstance(case.body, dict) and type(case.body.get("wait_ms")) is int:
        case.body["wait_ms"] = 0
