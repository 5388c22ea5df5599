"""Schemathesis reads the vendor's three files and sends what they allow, and what they forbid, to a live server.

No request may break the server, and no answer may lie outside the files, but for the deviations listed here; each of
them is explained in docs/dialects/anypoint.md.
"""

import copy
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.anypoint_spec import SERVICES, is_vendors, plain, spec
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

EXAMPLES = 12
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

REFUSALS = {"400", "401", "403", "404", "409", "413", "429", "503"}
"""Where a file lists no refusal of its own for a bad request, Courier refuses all the same."""

BATCHES = {
    "/organizations/{}/environments/{}/destinations/{}/messages",
    "/organizations/{}/environments/{}/destinations/{}/messages/locks",
}
"""A batch of acknowledgements: one object in the file, one status a message from a lenient Courier."""

BINDING = "/v1/organizations/{}/environments/{}/regions/{}/bindings/exchanges/{}/queues/{}"
"""The file lists no success for reading and making a binding."""

KNOWN = {
    "organization": "default",
    "environment": "default",
    "region": "us-east-1",
    "destination": "orders",
    "queue": "orders",
    "exchange": "events",
}


ORDERS = {"defaultTtl": 3_600_000, "defaultLockTtl": 120_000, "defaultDeliveryDelay": 0}
"""A queue's settings as they must be for what is published to come out at once: others may have changed them."""


def deviating(service: str, mode: str) -> dict[str, Any]:
    """The document with the known deviations written into it."""
    raw = copy.deepcopy(spec(service))
    for path, item in raw["paths"].items():
        for method, operation in item.items():
            if "responses" not in operation:
                continue
            for status in REFUSALS:
                operation["responses"].setdefault(status, {"description": "refused"})
            if plain(path) == BINDING:
                operation["responses"].setdefault("200", {"description": "not in the file"})
            if mode == "lenient" and method == "delete" and plain(path) in BATCHES:
                described = operation["responses"]["200"]["content"]["application/json"]
                described["schema"] = {"oneOf": [described["schema"], {"type": "array", "items": described["schema"]}]}
    return raw


def schema_of(service: str, mode: str) -> Any:
    raw = deviating(service, mode) if is_vendors(service) else spec(service)
    return schemathesis.openapi.from_dict(raw)


schemathesis.openapi.format("rfc2616", st.integers(0, 40 * 366 * 86_400).map(lambda at: formatdate(at, usegmt=True)))

OPERATIONS = [
    pytest.param(mode, service, operation, id=f"{mode} {operation.label}")
    for mode in ("strict", "lenient")
    for service in SERVICES
    for operation in (result.ok() for result in schema_of(service, mode).get_all_operations())
]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ServerProcess]]:
    folder = tmp_path_factory.mktemp("anypoint-fuzz")
    with (
        start_server(folder / "strict", dialects_anypoint_mode="strict") as strict,
        start_server(folder / "lenient", dialects_anypoint_mode="lenient") as lenient,
    ):
        yield {"strict": strict, "lenient": lenient}


def furnish(server: ServerProcess) -> dict[str, str]:
    """Something for operations to work on, by the names under which a path asks for it."""
    environment = "organizations/default/environments/default"
    region = f"{server.url}/mq/admin/api/v1/{environment}/regions/us-east-1"
    session = server.session
    session.put(f"{region}/destinations/queues/orders", json=ORDERS, timeout=30)
    session.put(f"{region}/destinations/exchanges/events", timeout=30)
    session.put(f"{region}/bindings/exchanges/events/queues/orders", timeout=30)
    clients = f"{server.url}/mq/admin/api/v1/{environment}/clients"
    made = session.put(clients, json={"name": f"client {time.time_ns()}"}, timeout=30).json()
    messages = f"{server.url}/api/v1/{environment}/destinations/orders/messages"
    for message_id in ("m-1", "m-2", "m-3"):
        session.put(f"{messages}/{message_id}", json={"body": "hello"}, timeout=30)
    [message, *_] = session.get(messages, timeout=30).json()
    return KNOWN | {"client": made["clientId"], "lock": message["headers"]["lockId"]}


@pytest.mark.parametrize(("mode", "service", "operation"), OPERATIONS)
def test_no_request_breaks_the_server_or_is_answered_outside_the_file(
    servers: dict[str, ServerProcess], mode: str, service: str, operation: Any
) -> None:
    server = servers[mode]
    known = furnish(server)
    good = operation.as_strategy(schemathesis.GenerationMode.POSITIVE)
    bad = operation.as_strategy(schemathesis.GenerationMode.NEGATIVE)

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=good | bad, aim=st.integers(0, 3))
    def run(case: schemathesis.Case, aim: int) -> None:
        if aim:
            meet_what_is_there(case, known)
        do_not_wait(case)
        headers = {"Authorization": f"Bearer {server.token}"}
        case.call_and_validate(base_url=server.url + SERVICES[service], headers=headers, checks=CHECKS)

    run()


def meet_what_is_there(case: schemathesis.Case, known: dict[str, str]) -> None:
    for name in case.path_parameters or {}:
        if (value := known.get(name.removesuffix("Id"))) is not None:
            case.path_parameters[name] = value
    query = case.query or {}
    if "destinationIds" in query:
        query["destinationIds"] = "orders,events"
    if "startDate" in query:
        query["startDate"], query["endDate"] = (formatdate(time.time() - past, usegmt=True) for past in (3_600, 0))
    if isinstance(query.get("period"), str):
        query["period"] = "1day"
    for item in case.body if isinstance(case.body, list) else [case.body]:
        if isinstance(item, dict) and "lockId" in item:
            item["lockId"] = known["lock"]


def do_not_wait(case: schemathesis.Case) -> None:
    """A good polling time is replaced by a short one, and so is none: it would be ten seconds."""
    if case.method.upper() != "GET" or "pollingTime" not in {one.name for one in case.operation.query}:
        return
    case.query = dict(case.query or {})
    asked = case.query.get("pollingTime")
    if asked is None or str(asked).isdigit():
        case.query["pollingTime"] = 1
