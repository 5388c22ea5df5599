"""Anypoint's OpenAPI documents as test data, and a client that knows nothing but one of them.

The vendor's own files are taken from `../shared/specs/anypoint` where that folder exists; elsewhere the document that
Courier serves itself stands in for them.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema
import msgspec
import requests
import yaml

from couriermq.dialects.anypoint.openapi import document

FOLDER = Path(__file__).parents[2].parent / "shared" / "specs" / "anypoint"
SERVICES = {"broker": "/api/v1", "admin": "/mq/admin/api", "stats": "/mq/stats/api/v1"}
"""Each service and the path of its server: the files leave the host to the reader."""


@cache
def spec(service: str) -> dict[str, Any]:
    """The document of a service, its paths relative to the service's own."""
    file = FOLDER / f"{service}-api.yaml"
    raw = yaml.safe_load(file.read_text()) if file.exists() else _own(SERVICES[service])
    raw["servers"] = [{"url": "/"}]
    return dict(raw)


def is_vendors(service: str) -> bool:
    return (FOLDER / f"{service}-api.yaml").exists()


def _own(prefix: str) -> dict[str, Any]:
    raw: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document()))
    raw["paths"] = {path[len(prefix) :]: item for path, item in raw["paths"].items() if path.startswith(prefix + "/")}
    return raw


class Answer:
    """What came back, already found to be what the document promises."""

    def __init__(self, response: requests.Response) -> None:
        self.status = response.status_code
        self.body: Any = response.json() if response.content else None


class SpecClient:
    """Calls operations by method and path, and refuses to send or to accept what the document does not describe.

    `deviations` names (method, path, status) triples at which the server is known to differ from the document.
    """

    def __init__(
        self, service: str, url: str, token: str | None, *, deviations: frozenset[tuple[str, str, int]] = frozenset()
    ) -> None:
        self.raw = spec(service)
        self.base = url + SERVICES[service]
        self.called: set[tuple[str, str]] = set()
        self._deviations = deviations
        self._session = requests.Session()
        if token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"
        self._operations = dict(self._list())

    def _list(self) -> Any:
        for path, item in self.raw["paths"].items():
            for method, operation in item.items():
                if method in {"get", "put", "post", "patch", "delete"}:
                    yield (method.upper(), plain(path)), (path, operation)

    @property
    def operations(self) -> set[tuple[str, str]]:
        return set(self._operations)

    def call(
        self, method: str, path: str, *values: str, query: Any = None, body: Any = None, form: Any = None
    ) -> Answer:
        """One operation; `path` has `{}` for each of `values`."""
        template, operation = self._operations[method, path]
        self.called.add((method, path))
        self._check_query(template, operation, query or {})
        if body is not None:
            self._check(body, self._body_schema(operation), f"request of {method} {path}")
        target = self.base + path.format(*(quote(value, safe="") for value in values))
        response = self._session.request(method, target, params=query, json=body, data=form, timeout=60)
        self._check_response(operation, method, path, response)
        return Answer(response)

    def _check_query(self, template: str, operation: Any, query: dict[str, Any]) -> None:
        known = {one["name"]: one for one in map(self._resolve, operation.get("parameters", []))}
        assert set(query) <= set(known), f"{template} knows no {set(query) - set(known)}"
        for name, parameter in known.items():
            if parameter["in"] == "query" and parameter.get("required"):
                assert name in query, f"{template} needs {name}"
            if name in query:
                self._check(query[name], parameter["schema"], f"parameter {name}")

    def _body_schema(self, operation: Any) -> Any:
        content = self._resolve(operation["requestBody"])["content"]
        return content["application/json"]["schema"]

    def _check_response(self, operation: Any, method: str, path: str, response: requests.Response) -> None:
        status = response.status_code
        if (method, path, status) in self._deviations:
            return
        described = operation["responses"].get(str(status))
        assert described is not None, f"{method} {path} answered {status}: {response.text}"
        content = self._resolve(described).get("content")
        if content and response.content:
            kind = response.headers["content-type"]
            assert kind in content, f"{method} {path} answered {kind}"
            self._check(response.json(), content[kind]["schema"], f"{status} of {method} {path}")

    def _check(self, value: Any, schema: Any, place: str) -> None:
        try:
            jsonschema.validate(value, self._flat(schema))
        except jsonschema.ValidationError as error:
            raise AssertionError(f"{place}: {error.message}") from None

    def _resolve(self, node: Any) -> Any:
        while isinstance(node, dict) and "$ref" in node:
            found: Any = self.raw
            for part in node["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            node = {**found, **{name: value for name, value in node.items() if name != "$ref"}}
        return node

    def _flat(self, schema: Any) -> Any:
        """A plain JSON schema: references followed, OpenAPI's own keywords translated."""
        schema = self._resolve(schema)
        if isinstance(schema, list):
            return [self._flat(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        flat = {name: self._flat(value) for name, value in schema.items() if name not in {"nullable", "example"}}
        return {"anyOf": [flat, {"type": "null"}]} if schema.get("nullable") is True else flat


def plain(path: str) -> str:
    """A path without the names of its parameters, which differ between documents."""
    return re.sub(r"{\w+}", "{}", path)
