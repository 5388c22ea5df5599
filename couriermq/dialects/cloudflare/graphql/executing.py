"""Runs a query: bounded in tokens, depth and fields before anything is looked up."""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast

from graphql import (
    ExecutionResult,
    GraphQLError,
    GraphQLSchema,
    VariablesInAllowedPositionRule,
    execute,
    parse,
    specified_rules,
    validate,
)

from couriermq.core.errors import CourierError, Forbidden, Unavailable
from couriermq.dialects.cloudflare.graphql.bounds import check_bounds
from couriermq.dialects.cloudflare.graphql.resolving import Resolver
from couriermq.dialects.cloudflare.graphql.schema import build
from couriermq.dialects.cloudflare.graphql.variables import VariablesOfOneShapeRule
from couriermq.web.call import Call

log = logging.getLogger(__name__)

TOKENS = 2_000
ERRORS = 20

RULES = [VariablesOfOneShapeRule if rule is VariablesInAllowedPositionRule else rule for rule in specified_rules]


async def answer(call: Call, query: str, variables: Mapping[str, Any] | None, operation: str | None) -> dict[str, Any]:
    """The document that answers a query; what fails is told in it."""
    try:
        document = parse(query, max_tokens=TOKENS)
        errors: Sequence[GraphQLError] = validate(_schema(), document, RULES, max_errors=ERRORS)
        if not errors:
            check_bounds(document)
    except GraphQLError as error:
        errors = [error]
    if errors:
        return _written(ExecutionResult(None, list(errors)), call)
    running = execute(
        _schema(),
        document,
        context_value=Resolver(call),
        variable_values=dict(variables or {}),
        operation_name=operation,
    )
    result = running if isinstance(running, ExecutionResult) else await cast(Any, running)
    return _written(result, call)


@cache
def _schema() -> GraphQLSchema:
    return build()


def _written(result: ExecutionResult, call: Call) -> dict[str, Any]:
    errors = [_written_error(error, call) for error in (result.errors or ())[:ERRORS]]
    return {"data": result.data, "errors": errors or None}


def _written_error(error: GraphQLError, call: Call) -> dict[str, Any]:
    """In the form of GraphQL, with the vendor's extensions; of a mistake of ours nothing is told."""
    cause = error.original_error
    known = cause is None or isinstance(cause, CourierError)
    if not known:
        log.error("a GraphQL query failed", exc_info=cause)
    at = datetime.fromtimestamp(call.services.clock.now() / 1_000, UTC).isoformat().replace("+00:00", "Z")
    written = error.formatted | {"extensions": {"code": _code(cause), "timestamp": at}}
    return dict(written if known else written | {"message": "Unknown Internal Error"})


def _code(cause: Exception | None) -> str:
    if isinstance(cause, Forbidden):
        return "authz"
    if isinstance(cause, Unavailable):
        return "unavailable"
    return "error" if cause is None or isinstance(cause, CourierError) else "internal"
