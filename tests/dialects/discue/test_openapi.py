"""The OpenAPI document of the Discue dialect says what the dialect does."""

from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from couriermq.dialects.discue.dialect import Discue
from couriermq.dialects.discue.routes import VERSION
from tests.support.discue import LIVE, NOTIFY, discue_organization

DOCUMENT = Discue().openapi()


def test_every_path_is_served_without_the_version_too() -> None:
    paths = {(route.method, route.pattern) for route in Discue().routes}
    assert {(method, path.removeprefix(VERSION)) for method, path in paths} <= paths


def test_every_operation_has_a_name_of_its_own() -> None:
    operations = [
        operation for item in DOCUMENT["paths"].values() for method, operation in item.items() if method != "parameters"
    ]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert {tag for operation in operations for tag in operation["tags"]} == {
        "queues", "listeners", "messages", "schemas", "api_keys", "api_clients", "domains", "events", "stats",
    }  # fmt: skip


def conforms(document: Any, path: str, method: str, status: int) -> None:
    content = DOCUMENT["paths"][path][method.lower()]["responses"][str(status)]["content"]
    schema = {**content["application/json"]["schema"], "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(document)


QUEUE, LISTENER = "/queues/{queue_id}", "/queues/{queue_id}/listeners/{listener_id}"
MESSAGE, SCHEMA = "/queues/{queue_id}/messages/{message_id}", "/queues/{queue_id}/schemas/{schema_id}"
KEY, CLIENT, DOMAIN = "/api_keys/{api_key_id}", "/api_clients/{api_client_id}", "/domains/{domain_id}"
SHOP = {"name": "shop", "notify_url": NOTIFY, "liveness_url": LIVE, "status": "paused"}
CALLS: list[tuple[str, str, Any]] = [
    ("POST", "/queues", {"name": "orders", "schema": {"n": {"type": "number"}}}),
    ("GET", "/queues", None),
    ("GET", QUEUE, None),
    ("GET", SCHEMA, None),
    ("PUT", QUEUE, {"alias": "orders-2"}),
    ("PUT", "/queues", {}),
    ("POST", "/queues/{queue_id}/listeners", SHOP),
    ("PUT", "/queues/{queue_id}/listeners", SHOP | {"name": "till"}),
    ("GET", "/queues/{queue_id}/listeners", None),
    ("GET", "/listeners", None),
    ("GET", LISTENER, None),
    ("PUT", LISTENER, {"name": "books"}),
    ("POST", f"{LISTENER}/replay", {"missed": True}),
    ("PUT", f"{LISTENER}/replay", {"message_ids": ["nothing"]}),
    ("POST", "/queues/{queue_id}/messages", {"data": "hello", "name": "m-1"}),
    ("PUT", "/queues/{queue_id}/messages", {"data": "hello"}),
    ("GET", "/queues/{queue_id}/messages", None),
    ("GET", "/messages", None),
    ("GET", MESSAGE, None),
    ("PUT", MESSAGE, {"name": "m-2"}),
    ("DELETE", MESSAGE, None),
    ("DELETE", LISTENER, None),
    ("DELETE", QUEUE, None),
    ("POST", "/api_keys", {"name": "old"}),
    ("PUT", "/api_keys", {"alias": "new", "scopes": {"queues": {"access": "read"}}}),
    ("GET", "/api_keys", None),
    ("GET", KEY, None),
    ("PUT", KEY, {"status": "disabled"}),
    ("DELETE", KEY, None),
    ("POST", "/api_clients", {"name": "acme.com/dev"}),
    ("PUT", "/api_clients", None),
    ("GET", "/api_clients", None),
    ("GET", CLIENT, None),
    ("PUT", CLIENT, {"name": "acme.com/prod"}),
    ("POST", "/domains", {"alias": "mine", "hostname": "localhost", "port": 443}),
    ("PUT", "/domains", {"alias": "more", "hostname": "localhost", "port": 443}),
    ("GET", "/domains", None),
    ("GET", DOMAIN, None),
    ("PUT", DOMAIN, {"alias": "ours"}),
    ("DELETE", DOMAIN, None),
    ("GET", "/events", None),
    ("GET", "/stats/messages", None),
]


def test_the_calls_below_are_all_that_there_are() -> None:
    served = {(r.method, r.pattern.removeprefix(VERSION)) for r in Discue().routes if r.pattern.startswith(VERSION)}
    assert {(method, path) for method, path, _ in CALLS} == served


async def test_answers_have_the_described_shape(tmp_path: Path) -> None:
    known: dict[str, str] = {}
    async with discue_organization(tmp_path) as org:
        for method, path, order in CALLS:
            body = msgspec.UNSET if order is None else order
            response = await org.call(method, path.format(**known), body)
            assert response.status == 200, (method, path, response)
            answer = response.json()
            conforms(answer, VERSION + path, method, 200)
            for noun in ("queue", "listener", "message", "api_key", "api_client", "domain"):
                if isinstance(answer.get(noun), dict):
                    known[f"{noun}_id"] = answer[noun]["id"]
            if "schema_id" in answer.get("queue", {}):
                known["schema_id"] = answer["queue"]["schema_id"]


@pytest.mark.parametrize(
    ("method", "path", "order", "status"),
    [
        ("GET", "/queues/{queue_id}", None, 404),
        ("POST", "/queues", {"name": 7}, 422),
        ("GET", "/queues", None, 406),
    ],
)
async def test_refusals_have_the_described_shape(
    tmp_path: Path, method: str, path: str, order: Any, status: int
) -> None:
    headers = {"accept": "text/html"} if status == 406 else {}
    async with discue_organization(tmp_path) as org:
        response = await org.call(method, path.format(queue_id="none"), order, headers=headers)
        assert response.status == status
        conforms(response.json(), VERSION + path, method, status)


def test_the_page_about_the_dialect_names_every_endpoint() -> None:
    page = (Path(__file__).parents[3] / "docs" / "dialects" / "discue.md").read_text()
    described = [(method, path) for method, path, _ in CALLS if method != "PUT" or path.endswith("}")]
    assert [each for each in described if f"`{each[0]} {each[1]}`" not in page] == []
