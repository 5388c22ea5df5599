"""The native dialect's OpenAPI document says what the dialect does, all of it and nothing else."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from couriermq.dialects.native.errors import ERRORS, URN
from couriermq.dialects.native.openapi import document
from couriermq.dialects.native.operations import Operation
from couriermq.dialects.native.routes import OPERATIONS
from couriermq.dialects.native.words import TAGS, WORDS
from couriermq.dialects.openapi import FOLDER
from tests.support.native import Tenant, native_tenant

METHODS = {"get", "put", "post", "patch", "delete"}


@pytest.fixture(scope="module")
def api() -> dict[str, Any]:
    """The document as a reader gets it."""
    read: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document()))
    return read


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        yield tenant


def operations(api: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in api["paths"].items():
        for method in METHODS & set(item):
            yield method.upper(), path, item[method]


def follow(api: dict[str, Any], reference: str) -> Any:
    node: Any = api
    for part in reference.removeprefix("#/").split("/"):
        node = node[part]
    return node


# -- the document and the routes ------------------------------------------------------------------------------


def test_every_operation_has_a_name_of_its_own_and_says_what_it_does(api: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(api)]
    assert len(set(names)) == len(names)
    for _, _, operation in operations(api):
        assert operation["summary"]
        assert set(operation["tags"]) <= set(TAGS)


def test_every_name_in_a_path_is_a_parameter(api: dict[str, Any]) -> None:
    for path, item in api["paths"].items():
        given = {follow(api, parameter["$ref"])["name"] for parameter in item.get("parameters", [])}
        assert given == set(re.findall(r"{(\w+)}", path))


def test_every_word_is_explained(api: dict[str, Any]) -> None:
    unexplained = {
        name
        for schema in api["components"]["schemas"].values()
        for name, value in schema.get("properties", {}).items()
        if "description" not in value and "$ref" not in value
    }
    assert unexplained <= {"queues"}


def test_every_explained_word_is_used(api: dict[str, Any]) -> None:
    used = {name for schema in api["components"]["schemas"].values() for name in schema.get("properties", {})}
    used |= {parameter["name"] for _, _, operation in operations(api) for parameter in operation["parameters"]}
    assert set(WORDS) - used == set()


def test_every_operation_wants_a_token_but_the_first_and_those_that_sign_in(api: dict[str, Any]) -> None:
    public = {operation["operationId"] for _, _, operation in operations(api) if operation.get("security") == []}
    assert public == {"about", "sign_in", "read_session", "sign_out"}
    assert api["security"] == [{"token": []}]
    assert api["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_every_failure_is_documented_as_a_problem(api: dict[str, Any]) -> None:
    for _, _, operation in operations(api):
        for status, reference in operation["responses"].items():
            if status >= "400":
                content = follow(api, reference["$ref"])["content"]["application/problem+json"]
                assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
    known = api["components"]["schemas"]["Problem"]["properties"]["type"]["examples"]
    assert set(known) == {URN + answer.name for answer in ERRORS.values()}


def test_whoever_is_told_to_wait_is_told_how_long(api: dict[str, Any]) -> None:
    for _, _, operation in operations(api):
        for status in {"429", "503"} & set(operation["responses"]):
            assert "Retry-After" in follow(api, operation["responses"][status]["$ref"])["headers"]


# -- the schemas ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.takes is not None], ids=lambda o: o.id)
def test_every_example_fits_its_own_schema(api: dict[str, Any], operation: Operation) -> None:
    written = api["paths"][operation.path][operation.method.lower()]
    content = written["requestBody"]["content"]["application/json"]
    schema = content["schema"] | {"components": api["components"]}
    Draft202012Validator(schema).validate(content["example"])


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("NewMessage", {"json": None}, {"body": "a", "json": 1}),
        ("NewMessage", {"body": "a", "delay_ms": 5}, {"body": "a", "delay_ms": -1}),
        ("AckOrder", {"receipts": ["a"]}, {"receipt": "a", "receipts": ["a"]}),
        ("NewQueue", {"name": "a/b"}, {"name": "/a"}),
        ("SettleOrder", {"settlements": [{"do": "ack", "receipt": "a"}]}, {"settlements": [{"do": "ack"}]}),
    ],
)
def test_a_schema_knows_good_from_bad(api: dict[str, Any], name: str, good: object, bad: object) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": api["components"]}
    assert Draft202012Validator(schema).is_valid(good)
    assert not Draft202012Validator(schema).is_valid(bad)


# -- serving it -----------------------------------------------------------------------------------------------


async def test_the_document_is_served_to_anybody(root: Tenant, api: dict[str, Any]) -> None:
    answer = await root.app.request("GET", "/openapi/native.json", token=None)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == api
    again = await root.app.request("GET", "/openapi/native.json", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


async def test_the_documents_are_listed(root: Tenant) -> None:
    listed = (await root.app.request("GET", "/openapi", token=None)).json()
    assert listed == {"documents": [{"dialect": "native", "title": "Courier", "url": "/openapi/native.json"}]}


async def test_the_page_and_all_that_it_loads_come_from_this_server(root: Tenant) -> None:
    page = await root.app.request("GET", "/docs", token=None)
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    loaded = [f"/{path}" for path in re.findall(r'(?:src|href)="([^"#/][^"#]*)"', page.body.decode())]
    assert not re.findall(r'(?:src|href)="/', page.body.decode()), "the page must work below any path prefix"
    loaded += [
        f"/docs/{name}" for file in FOLDER.glob("*.js") for name in re.findall(r'from "\./(.+?)"', file.read_text())
    ]
    assert {"/docs/page.js", "/docs/page.css", "/docs/dom.js"} <= set(loaded)
    for path in loaded:
        assert (await root.app.request("GET", path, token=None)).status == 200, path


async def test_the_page_may_not_talk_to_anybody_else(root: Tenant) -> None:
    page = await root.app.request("GET", "/docs", token=None)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    for file in FOLDER.iterdir():
        outside = re.findall(r"https?://[\w.-]+", file.read_text())
        assert set(outside) <= {"http://www.w3.org"}, file.name
