"""Schemathesis reads each dialect's document and sends what it allows, and what it forbids, to a live server.

No request may break the server, and no answer may lie outside the document. For Anypoint the documents are the vendor's
own where they are at hand, with the known deviations written into them; docs/dialects/anypoint.md explains each.
`make fuzz` sends more.
"""

import copy
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any, NamedTuple

import msgspec
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
    unsupported_method,
)

from couriermq.dialects.cloudflare import openapi as cloudflare
from couriermq.dialects.discue import openapi as discue
from couriermq.dialects.native import openapi as native
from tests.support.anypoint_spec import SERVICES, is_vendors, plain, spec
from tests.support.discue import LIVE, NOTIFY
from tests.support.server import ServerProcess, start_server
from tests.support.soak import FUZZ_SECONDS, repeated

pytestmark = pytest.mark.slow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
TIMEOUT_S = 30

Known = dict[str, str]
"""What is there for operations to work on, by the name of the path's parameter."""


class Subject(NamedTuple):
    """A document, and the server that must keep to it."""

    name: str
    document: dict[str, Any]
    furnish: Callable[[ServerProcess], Known]
    """Creates what operations work on: other requests may have removed it."""
    mode: str = "strict"
    prefix: str = ""
    checks: list[Any] = [*CHECKS, unsupported_method]  # noqa: RUF012 - nobody changes it


def furnish_native(server: ServerProcess) -> Known:
    tenant, session = f"{server.url}/courier/v1/tenants/default", server.session
    session.post(f"{tenant}/queues", json={"name": "orders"}, timeout=TIMEOUT_S)
    session.post(f"{tenant}/exchanges", json={"name": "events"}, timeout=TIMEOUT_S)
    session.put(f"{tenant}/exchanges/events/bindings/orders", timeout=TIMEOUT_S)
    session.post(f"{tenant}/queues/orders/messages", json={"body": "hello"}, timeout=TIMEOUT_S)
    return {"tenant": "default", "queue": "orders", "exchange": "events"}


def furnish_cloudflare(server: ServerProcess) -> Known:
    queues, session = f"{server.url}/client/v4/accounts/default/queues", server.session
    session.post(queues, json={"queue_name": "orders"}, timeout=TIMEOUT_S)
    session.put(f"{queues}/orders/consumers/known", json={"type": "http_pull"}, timeout=TIMEOUT_S)
    session.post(f"{queues}/orders/messages", json={"body": {"n": 1}}, timeout=TIMEOUT_S)
    return {"account_id": "default", "queue_id": "orders", "consumer_id": "known"}


def furnish_discue(server: ServerProcess) -> Known:
    shop = {"name": "shop", "notify_url": NOTIFY, "liveness_url": LIVE, "status": "paused"}
    queues, session = f"{server.url}/queues", server.session
    session.headers["X-API-KEY"] = server.token
    session.post(queues, json={"name": "orders"}, timeout=TIMEOUT_S)
    session.post(f"{queues}/orders/listeners", json=shop, timeout=TIMEOUT_S)
    session.post(f"{queues}/orders/messages", json={"data": "hello"}, timeout=TIMEOUT_S)
    return {"queue_id": "orders", "listener_id": "shop", "api_client_id": "default"}


# -- Anypoint ---------------------------------------------------------------------------------------------------

REFUSALS = {"400", "401", "403", "404", "409", "413", "429", "503"}
"""Where a file lists no refusal of its own for a bad request, Courier refuses all the same."""

BATCHES = {
    "/organizations/{}/environments/{}/destinations/{}/messages",
    "/organizations/{}/environments/{}/destinations/{}/messages/locks",
}
"""A batch of acknowledgements: one object in the file, one status a message from a lenient Courier."""

BINDING = "/v1/organizations/{}/environments/{}/regions/{}/bindings/exchanges/{}/queues/{}"
"""The file lists no success for reading and making a binding."""

ANYPOINT_QUEUE = {"defaultTtl": 3_600_000, "defaultLockTtl": 120_000, "defaultDeliveryDelay": 0}
"""Settings under which a published message can be received at once: other requests may have changed them."""


def anypoint_document(service: str, mode: str) -> dict[str, Any]:
    """The document of a service, with the known deviations written into the vendor's."""
    raw = copy.deepcopy(spec(service))
    if not is_vendors(service):
        return raw
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


def furnish_anypoint(server: ServerProcess) -> Known:
    environment = "organizations/default/environments/default"
    admin = f"{server.url}/mq/admin/api/v1/{environment}"
    region, session = f"{admin}/regions/us-east-1", server.session
    session.put(f"{region}/destinations/queues/orders", json=ANYPOINT_QUEUE, timeout=TIMEOUT_S)
    session.put(f"{region}/destinations/exchanges/events", timeout=TIMEOUT_S)
    session.put(f"{region}/bindings/exchanges/events/queues/orders", timeout=TIMEOUT_S)
    made = session.put(f"{admin}/clients", json={"name": f"client {time.time_ns()}"}, timeout=TIMEOUT_S).json()
    messages = f"{server.url}/api/v1/{environment}/destinations/orders/messages"
    for message_id in ("m-1", "m-2", "m-3"):
        session.put(f"{messages}/{message_id}", json={"body": "hello"}, timeout=TIMEOUT_S)
    [message, *_] = session.get(messages, timeout=TIMEOUT_S).json()
    known = {"organization": "default", "environment": "default", "region": "us-east-1", "destination": "orders"}
    known |= {"queue": "orders", "exchange": "events", "client": made["clientId"], "lock": message["headers"]["lockId"]}
    return known | {f"{name}Id": value for name, value in known.items()}


# -- the requests ---------------------------------------------------------------------------------------------


def aim(case: schemathesis.Case[Any], known: Known) -> None:
    """Have a request meet something that is there."""
    for name in case.path_parameters or {}:
        if name in known:
            case.path_parameters[name] = known[name]
    query = case.query or {}
    if "destinationIds" in query:
        query["destinationIds"] = "orders,events"
    if "startDate" in query:
        query["startDate"], query["endDate"] = (formatdate(time.time() - past, usegmt=True) for past in (3_600, 0))
    if isinstance(query.get("period"), str):
        query["period"] = "1day"
    for item in case.body if isinstance(case.body, list) else [case.body]:
        if isinstance(item, dict) and "lockId" in item and "lock" in known:
            item["lockId"] = known["lock"]


def do_not_wait(case: schemathesis.Case[Any]) -> None:
    """Have no request wait for a message."""
    if isinstance(case.body, dict) and type(case.body.get("wait_ms")) is int:
        case.body["wait_ms"] = 0
    if case.method.upper() == "GET" and "pollingTime" in {parameter.name for parameter in case.operation.query}:
        case.query = dict(case.query or {})
        asked = case.query.get("pollingTime")
        if asked is None or str(asked).isdigit():
            case.query["pollingTime"] = 1


SUBJECTS = [
    Subject("native", native.document(), furnish_native),
    Subject("cloudflare", cloudflare.document(), furnish_cloudflare),
    Subject("discue", discue.document(), furnish_discue),
    *(
        Subject(f"anypoint-{mode}", anypoint_document(service, mode), furnish_anypoint, mode, SERVICES[service], CHECKS)
        for mode in ("strict", "lenient")
        for service in SERVICES
    ),
]
schemathesis.openapi.format("rfc2616", st.integers(0, 40 * 366 * 86_400).map(lambda at: formatdate(at, usegmt=True)))


def schema_of(subject: Subject) -> Any:
    schema = schemathesis.openapi.from_dict(msgspec.json.decode(msgspec.json.encode(subject.document)))
    schema.config.max_stream_events = 1  # a live stream ends with its reader
    return schema


OPERATIONS = [
    pytest.param(subject, operation, id=f"{subject.name} {operation.label}")
    for subject in SUBJECTS
    for operation in (result.ok() for result in schema_of(subject).get_all_operations())
]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ServerProcess]]:
    """A server for each mode of the Anypoint dialect; the other dialects have no modes."""
    folder = tmp_path_factory.mktemp("fuzz")
    with (
        start_server(folder / "strict", dialects_anypoint_mode="strict") as strict,
        start_server(folder / "lenient", dialects_anypoint_mode="lenient") as lenient,
    ):
        yield {"strict": strict, "lenient": lenient}


@pytest.mark.parametrize(("subject", "operation"), OPERATIONS)
def test_no_request_breaks_the_server_or_is_answered_outside_the_document(
    servers: dict[str, ServerProcess], subject: Subject, operation: Any
) -> None:
    server = servers[subject.mode]
    known = subject.furnish(server)
    good = operation.as_strategy(schemathesis.GenerationMode.POSITIVE)
    bad = operation.as_strategy(schemathesis.GenerationMode.NEGATIVE)
    bearer = {"Authorization": f"Bearer {server.token}"}
    headers = {"X-API-KEY": server.token} if subject.name == "discue" else bearer

    @settings(max_examples=settings().max_examples // 8, database=None, suppress_health_check=list(HealthCheck))
    @given(case=good | bad, meets=st.integers(0, 3))
    def run(case: schemathesis.Case[Any], meets: int) -> None:
        if meets:
            aim(case, known)
        do_not_wait(case)
        answer = case.call(base_url=server.url + subject.prefix, headers=headers)
        if answer.status_code != 431:  # a head of more than 64 KiB: no operation sees it
            case.validate_response(answer, subject.checks, headers=headers)

    for _ in repeated(FUZZ_SECONDS / len(OPERATIONS)):
        run()
