"""Schemathesis reads the Discue document and sends what it allows, and what it forbids, to a live server."""

from collections.abc import Iterator

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings

from couriermq.dialects.discue.openapi import document
from tests.support.discue import LIVE, NOTIFY
from tests.support.fuzzing import CHECKS, aim, schema_of
from tests.support.server import ServerProcess, start_server

KNOWN = {"queue_id": "orders", "listener_id": "shop", "api_client_id": "default"}
EXAMPLES = 25

schema = schema_of(document())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("fuzz")) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> ServerProcess:
    """The server, with something there for operations to work on: others may have removed it."""
    key = {"X-API-KEY": server.token}
    shop = {"name": "shop", "notify_url": NOTIFY, "liveness_url": LIVE, "status": "paused"}
    requests.post(f"{server.url}/queues", json={"name": "orders"}, headers=key)
    requests.post(f"{server.url}/queues/orders/listeners", json=shop, headers=key)
    requests.post(f"{server.url}/queues/orders/messages", json={"data": "hello"}, headers=key)
    return server


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_breaks_the_server_or_gets_an_answer_that_is_not_documented(
    case: schemathesis.Case, client: ServerProcess
) -> None:
    aim(case, KNOWN)
    case.call_and_validate(base_url=client.url, headers={"X-API-KEY": client.token}, checks=CHECKS)
