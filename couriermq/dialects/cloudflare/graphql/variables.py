"""Where a query may use its variables.

The vendor's own examples give variables of the type Date to filters of the type Time. A scalar therefore stands for
any other scalar: its value is read where it is used. Objects, lists and enumerations must have the type that the
schema expects, since only that type has been checked.
"""

from typing import Any

from graphql import (
    GraphQLError,
    GraphQLSchema,
    OperationDefinitionNode,
    VariablesInAllowedPositionRule,
    get_nullable_type,
    is_list_type,
    is_scalar_type,
    is_type_sub_type_of,
    type_from_ast,
)


class VariablesOfOneShapeRule(VariablesInAllowedPositionRule):
    """The specified rule, except that scalars may stand for each other."""

    def leave_operation_definition(self, operation: OperationDefinitionNode, *_args: Any) -> None:
        schema = self.context.schema
        for usage in self.context.get_recursive_variable_usages(operation):
            name, wanted = usage.node.name.value, usage.type
            definition = self.var_def_map.get(name)
            if definition is None:
                continue
            given = type_from_ast(schema, definition.type)
            if given is not None and wanted is not None and not _stands_for(schema, given, wanted):
                sentence = f"Variable '${name}' of type '{given}' used in position expecting type '{wanted}'."
                self.report_error(GraphQLError(sentence, [definition, usage.node]))


def _stands_for(schema: GraphQLSchema, given: Any, wanted: Any) -> bool:
    given_inside, wanted_inside = get_nullable_type(given), get_nullable_type(wanted)
    if is_list_type(given_inside) and is_list_type(wanted_inside):
        return _stands_for(schema, given_inside.of_type, wanted_inside.of_type)
    if is_scalar_type(given_inside) and is_scalar_type(wanted_inside):
        return True
    return is_type_sub_type_of(schema, given, wanted)
