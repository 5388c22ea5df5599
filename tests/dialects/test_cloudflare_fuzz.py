"""Schemathesis reads the Cloudflare document and sends what it allows, and what it forbids, to a live server."""

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from couriermq.dialects.cloudflare.openapi import document
from tests.support.fuzzing import CHECKS, aim, schema_of
from tests.support.server import ServerProcess, start_server

KNOWN = {"account_id": "default", "queue_id": "orders", "consumer_id": "known"}
EXAMPLES = 30

schema = schema_of(document())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("fuzz")) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> ServerProcess:
    """The server, with something there for operations to work on: others may have removed it."""
    queues = f"{server.url}/client/v4/accounts/default/queues"
    server.session.post(queues, json={"queue_name": "orders"})
    server.session.put(f"{queues}/orders/consumers/known", json={"type": "http_pull"})
    server.session.post(f"{queues}/orders/messages", json={"body": {"n": 1}})
    return server


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_breaks_the_server_or_gets_an_answer_that_is_not_documented(
    case: schemathesis.Case, client: ServerProcess
) -> None:
    aim(case, KNOWN)
    token = {"Authorization": f"Bearer {client.token}"}
    case.call_and_validate(base_url=client.url, headers=token, checks=CHECKS)
