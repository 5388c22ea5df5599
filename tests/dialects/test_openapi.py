"""Each dialect's OpenAPI document describes every route of the dialect and nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from couriermq.config import Settings
from couriermq.dialects.anypoint.dialect import Anypoint
from couriermq.dialects.cloudflare.dialect import Cloudflare
from couriermq.dialects.discue.dialect import Discue
from couriermq.dialects.discue.routes import VERSION
from couriermq.dialects.native import dialect
from tests.support.inprocess import courier_app

METHODS = {"get", "put", "post", "patch", "delete"}
DIALECTS: dict[str, Any] = {
    "native": dialect(Settings()),
    "cloudflare": Cloudflare(),
    "anypoint": Anypoint(),
    "discue": Discue(),
}


def document_of(name: str) -> dict[str, Any]:
    """The document as a reader gets it."""
    read: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(DIALECTS[name].openapi()))
    return read


@pytest.fixture(params=DIALECTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS & set(item):
            yield method.upper(), path, item[method]


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_every_route_is_described_and_nothing_else(name: str) -> None:
    described = {(method, path) for method, path, _ in operations(document_of(name))}
    prefix = VERSION if name == "discue" else ""  # Discue's paths are served without their version, too
    routes = {(route.method, route.pattern) for route in DIALECTS[name].routes if route.pattern.startswith(prefix)}
    assert described == {(method, pattern) for method, pattern in routes if method != "HEAD"}


def test_every_operation_has_a_name_of_its_own_and_a_summary(name: str) -> None:
    found = [operation for _, _, operation in operations(document_of(name))]
    assert len({operation["operationId"] for operation in found}) == len(found)
    assert [operation["operationId"] for operation in found if not operation.get("summary")] == []


def test_every_schema_is_valid_and_referenced(name: str) -> None:
    document = document_of(name)
    schemas = document["components"]["schemas"]
    used = {each.rpartition("/")[2] for each in references(document) if each.startswith("#/components/schemas/")}
    assert used == set(schemas)
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_reference_has_a_target(name: str) -> None:
    document = document_of(name)
    for reference in references(document):
        node: Any = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
        assert node, reference


async def test_every_document_is_listed_and_served_to_anybody(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        listed = (await app.request("GET", "/openapi", token=None)).json()["documents"]
        assert listed[0]["dialect"] == "native"
        assert {entry["dialect"] for entry in listed} == set(DIALECTS)
        for entry in listed:
            answer = await app.request("GET", entry["url"], token=None)
            assert (answer.status, answer.json()) == (200, document_of(entry["dialect"]))
            assert answer.json()["info"]["title"] == entry["title"]
            assert answer.json()["openapi"].startswith("3.")
