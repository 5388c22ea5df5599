"""The OpenAPI document of the Anypoint dialect says what it does, and it does what the vendor's documents say."""

import pytest

from couriermq.dialects.anypoint.dialect import Anypoint
from couriermq.dialects.anypoint.rights import ACTIONS
from tests.support.anypoint_spec import SERVICES, plain, spec

DOCUMENT = Anypoint().openapi()
OPERATIONS = [operation for item in DOCUMENT["paths"].values() for operation in item.values()]


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


def test_every_scope_is_named_and_used() -> None:
    flow = DOCUMENT["components"]["securitySchemes"]["connectedApp"]["flows"]["clientCredentials"]
    used = {
        scope
        for operation in OPERATIONS
        for requirement in operation["security"]
        for scope in requirement.get("connectedApp", [])
    }
    assert used == set(flow["scopes"]) == set(ACTIONS)
