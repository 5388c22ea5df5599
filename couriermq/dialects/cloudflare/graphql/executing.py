"""Runs a query: bounded in tokens and depth before anything is looked up."""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast

from graphql import (
    DocumentNode,
    ExecutableDefinitionNode,
    ExecutionResult,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSchema,
    SelectionNode,
    VariablesInAllowedPositionRule,
    execute,
    parse,
    specified_rules,
    validate,
)

from couriermq.core.errors import CourierError, Forbidden, Unavailable
from couriermq.dialects.cloudflare.graphql.resolving import Resolver
from couriermq.dialects.cloudflare.graphql.schema import build
from couriermq.web.call import Call

log = logging.getLogger(__name__)

TOKENS = 2_000
DEPTH = 15
ERRORS = 20

RULES = [rule for rule in specified_rules if rule is not VariablesInAllowedPositionRule]
"""The vendor's own examples give variables of the type Date to filters of the type Time: a value is read where it is
used, whatever its type is called."""


async def answer(call: Call, query: str, variables: Mapping[str, Any] | None, operation: str | None) -> dict[str, Any]:
    """The document that answers a query; what fails is told in it."""
    try:
        document = parse(query, max_tokens=TOKENS)
        errors: Sequence[GraphQLError] = validate(_schema(), document, RULES, max_errors=ERRORS)
        if not errors:
            _check_depth(document)
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


def _check_depth(document: DocumentNode) -> None:
    """Validation has made sure that fragments do not contain themselves."""
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}

    @cache
    def depth_of_fragment(name: str) -> int:
        return max(map(depth, fragments[name].selection_set.selections), default=0)

    def depth(node: SelectionNode) -> int:
        if isinstance(node, FragmentSpreadNode):
            return depth_of_fragment(node.name.value)
        inside = getattr(node, "selection_set", None)
        return isinstance(node, FieldNode) + max(map(depth, inside.selections if inside else ()), default=0)

    for definition in document.definitions:
        if isinstance(definition, ExecutableDefinitionNode):
            for node in definition.selection_set.selections:
                if depth(node) > DEPTH:
                    raise GraphQLError(f"the query is more than {DEPTH} levels deep", definition)


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
