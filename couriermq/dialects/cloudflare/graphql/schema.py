"""The schema, in the vendor's names: viewer, accounts, datasets."""

from typing import Any

from graphql import (
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLEnumValue,
    GraphQLField,
    GraphQLFloat,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInt,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLString,
)

from couriermq.dialects.cloudflare.graphql.datasets import DATASETS, Dataset
from couriermq.dialects.cloudflare.graphql.resolving import Resolver
from couriermq.dialects.cloudflare.graphql.rows import INSTANTS, OPERATORS

LISTS = ("in", "notin")

# The vendor's own scalars, which queries name as the types of their variables.
TEXT = GraphQLScalarType("string")
TIME = GraphQLScalarType("Time", description="RFC 3339, such as 2026-11-18T10:00:00Z.")
DATE = GraphQLScalarType("Date", description="Such as 2026-11-18.")
NUMBER = GraphQLScalarType("uint64")


def build() -> GraphQLSchema:
    account = GraphQLObjectType(
        "account", {"accountTag": GraphQLField(TEXT), **{one.field: _dataset(one) for one in DATASETS}}
    )
    account_filter = GraphQLInputObjectType(
        "AccountFilter_InputObject",
        {
            "accountTag": GraphQLInputField(TEXT),
            "accountTag_in": GraphQLInputField(GraphQLList(GraphQLNonNull(TEXT))),
        },
    )
    accounts = GraphQLField(
        GraphQLNonNull(GraphQLList(GraphQLNonNull(account))),
        {"filter": GraphQLArgument(account_filter, out_name="where"), "limit": GraphQLArgument(NUMBER)},
        resolve=Resolver.accounts,
    )
    viewer = GraphQLObjectType("viewer", {"accounts": accounts})
    query = GraphQLObjectType("Query", {"viewer": GraphQLField(viewer, resolve=lambda *_: {})})
    return GraphQLSchema(query, types=[TEXT, TIME, DATE, NUMBER, GraphQLString, GraphQLInt])


def _dataset(dataset: Dataset) -> GraphQLField:
    fields = {"count": GraphQLField(GraphQLNonNull(NUMBER))}
    dimensions = {name: GraphQLField(_type(name)) for name in _dimensions(dataset)}
    fields["dimensions"] = GraphQLField(GraphQLObjectType(f"{dataset.title}Dimensions", dimensions))
    for part, names, kind in (
        ("avg", dataset.avg, GraphQLFloat),
        ("sum", dataset.sum, NUMBER),
        ("max", dataset.max, NUMBER),
    ):
        if names:
            measures = {name: GraphQLField(kind) for name in names}
            fields[part] = GraphQLField(GraphQLObjectType(f"{dataset.title}{part.capitalize()}", measures))
    return GraphQLField(
        GraphQLNonNull(GraphQLList(GraphQLNonNull(GraphQLObjectType(dataset.title, fields)))),
        {
            "filter": GraphQLArgument(_filter(dataset), out_name="where"),
            "limit": GraphQLArgument(NUMBER),
            "orderBy": GraphQLArgument(GraphQLList(GraphQLNonNull(_orders(dataset))), out_name="orders"),
        },
        resolve=Resolver.of(dataset),
    )


def _dimensions(dataset: Dataset) -> tuple[str, ...]:
    return (*dataset.words, *INSTANTS)


def _type(name: str) -> GraphQLScalarType:
    return DATE if name == "date" else TIME if name in INSTANTS else TEXT


def _filter(dataset: Dataset) -> GraphQLInputObjectType:
    fields: dict[str, GraphQLInputField] = {}
    for name in _dimensions(dataset):
        for operator in OPERATORS:
            kind: Any = GraphQLList(GraphQLNonNull(_type(name))) if operator in LISTS else _type(name)
            fields[f"{name}_{operator}" if operator else name] = GraphQLInputField(kind)

    def all_fields() -> dict[str, GraphQLInputField]:
        several = GraphQLInputField(GraphQLList(GraphQLNonNull(made)))
        return fields | {"AND": several, "OR": several}

    made = GraphQLInputObjectType(f"{dataset.title}Filter_InputObject", all_fields)
    return made


def _orders(dataset: Dataset) -> GraphQLEnumType:
    measures = [f"{part}_{name}" for part in ("avg", "sum", "max") for name in getattr(dataset, part)]
    names = [f"{name}_{way}" for name in ("count", *_dimensions(dataset), *measures) for way in ("ASC", "DESC")]
    return GraphQLEnumType(f"{dataset.title}OrderBy", {name: GraphQLEnumValue(name) for name in names})
