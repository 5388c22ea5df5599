"""Bounds of a query that hold before anything is looked up, with fragments counted wherever they are used."""

from functools import cache
from typing import NamedTuple

from graphql import (
    DocumentNode,
    ExecutableDefinitionNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    SelectionNode,
    SelectionSetNode,
)

DEPTH = 15
FIELDS = 500
"""How many fields a query selects: the query for the whole schema has about 250."""
ALIAS_CHARS = 64
"""An answer repeats the alias of a field in every group."""


class _Extent(NamedTuple):
    depth: int
    fields: int


def check_bounds(document: DocumentNode) -> None:
    """Raise GraphQLError for a query that is too deep or too wide; fragments must not contain themselves."""
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}

    @cache
    def of_fragment(name: str) -> _Extent:
        return of_all(fragments[name].selection_set)

    def of_all(selections: SelectionSetNode | None) -> _Extent:
        found = [of(node) for node in selections.selections] if selections is not None else []
        return _Extent(max((one.depth for one in found), default=0), sum(one.fields for one in found))

    def of(node: SelectionNode) -> _Extent:
        if isinstance(node, FragmentSpreadNode):
            return of_fragment(node.name.value)
        inside = of_all(getattr(node, "selection_set", None))
        if not isinstance(node, FieldNode):
            return inside
        if node.alias is not None and len(node.alias.value) > ALIAS_CHARS:
            raise GraphQLError(f"an alias has at most {ALIAS_CHARS} characters", node)
        return _Extent(inside.depth + 1, inside.fields + 1)

    for definition in document.definitions:
        if isinstance(definition, ExecutableDefinitionNode):
            extent = of_all(definition.selection_set)
            if extent.depth > DEPTH:
                raise GraphQLError(f"the query is more than {DEPTH} levels deep", definition)
            if extent.fields > FIELDS:
                raise GraphQLError(f"the query selects more than {FIELDS} fields, those of fragments included")
