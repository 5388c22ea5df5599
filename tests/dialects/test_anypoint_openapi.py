"""The OpenAPI document of the Anypoint dialect says what it does, and it does what the vendor's documents say."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from couriermq.clock import FakeClock
from couriermq.dialects.anypoint.dialect import Anypoint
from couriermq.dialects.anypoint.rights import ACTIONS
from tests.support.anypoint_spec import SERVICES, plain, spec
from tests.support.inprocess import courier_app

DOCUMENT = Anypoint().openapi()
OPERATIONS = [operation for item in DOCUMENT["paths"].values() for operation in item.values()]


def test_every_route_is_described_and_nothing_else() -> None:
    described = {(method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item}
    assert described == {(route.method, route.pattern) for route in Anypoint().routes if route.method != "HEAD"}


@pytest.mark.parametrize("service", SERVICES)
def test_every_operation_of_the_vendors_documents_has_a_route(service: str) -> None:
    routes = {(route.method, plain(route.pattern)) for route in Anypoint().routes}
    methods = {"get", "put", "post", "patch", "delete"}
    operations = {
        (method.upper(), SERVICES[service] + plain(path))
        for path, item in spec(service)["paths"].items()
        for method in item
        if method in methods
    }
    assert operations - routes == set()
    assert operations


def test_every_operation_has_a_name_of_its_own() -> None:
    assert len({operation["operationId"] for operation in OPERATIONS}) == len(OPERATIONS)
    assert all(operation["summary"] for operation in OPERATIONS)


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        found = [node["$ref"]] if "$ref" in node else []
        return found + [name for value in node.values() for name in references(value)]
    return [name for value in node for name in references(value)] if isinstance(node, list) else []


def test_every_shape_is_there_and_is_used() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert {name.rpartition("/")[2] for name in references(DOCUMENT)} == set(schemas)
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_scope_is_named_and_used() -> None:
    flow = DOCUMENT["components"]["securitySchemes"]["connectedApp"]["flows"]["clientCredentials"]
    used = {
        scope
        for operation in OPERATIONS
        for requirement in operation["security"]
        for scope in requirement.get("connectedApp", [])
    }
    assert used == set(flow["scopes"]) == set(ACTIONS)


async def test_the_document_is_served(tmp_path: Path) -> None:
    async with courier_app(tmp_path, clock=FakeClock()) as app:
        response = await app.get("/openapi/anypoint.json", token=None)
        assert (response.status, response.json()["info"]["title"]) == (200, "Courier: Anypoint MQ")
