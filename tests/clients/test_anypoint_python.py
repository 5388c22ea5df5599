"""The client `anypoint` from PyPI against a real server, used as its documentation says."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from anypoint import Anypoint
from anypoint.authentication import Basic, OAuth2

from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

REGION = "us-east-1"
ENVIRONMENT = "/organizations/acme/environments/sandbox"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("anypoint")) as server:
        tenants = f"{server.url}/courier/v1/tenants"
        made = server.session.post(tenants, json={"id": "test", "aliases": {"anypoint": "acme/sandbox"}}, timeout=30)
        assert made.status_code == 201
        yield server


@pytest.fixture(scope="module")
def connected_app(server: ServerProcess) -> tuple[str, str]:
    """The id and the secret of a credential that sees figures and destinations."""
    order = {"name": "watcher", "scopes": [{"action": "browse"}, {"action": "stats"}]}
    made = server.session.post(f"{server.url}/courier/v1/tenants/test/credentials", json=order, timeout=30).json()
    return made["id"], made["secret"]


@pytest.fixture
def client(server: ServerProcess, connected_app: tuple[str, str]) -> Anypoint:
    return Anypoint(OAuth2(*connected_app), base_url=server.url)


def fill(server: ServerProcess, queue: str, *, sent: int, acked: int) -> None:
    """Make a queue, publish messages and acknowledge some of them."""

    def call(method: str, path: str, **options: Any) -> Any:
        answer = server.session.request(method, server.url + path, timeout=30, **options)
        assert answer.status_code in {200, 201}, answer.text
        return answer.json()

    call("PUT", f"/mq/admin/api/v1{ENVIRONMENT}/regions/{REGION}/destinations/queues/{queue}", json={})
    messages = f"/api/v1{ENVIRONMENT}/destinations/{queue}/messages"
    for number in range(sent):
        call("PUT", f"{messages}/m-{number}", json={"body": "hello"})
    for message in call("GET", f"{messages}?batchSize={acked}"):
        headers = message["headers"]
        call("DELETE", f"{messages}/{headers['messageId']}", json={"lockId": headers["lockId"]})


def test_it_finds_its_organization_and_its_environment(client: Anypoint) -> None:
    organization = client.organizations.get_organization()
    assert (organization.id, organization.name, organization.is_root) == ("acme", "acme", True)
    assert organization.entitlements.mq_advanced_features == {"enabled": True}
    assert client.organizations.get_organization("acme").id == "acme"
    [environment] = organization.get_environments()
    assert (environment.id, environment.name, environment.organization_id) == ("sandbox", "test", "acme")


def test_a_person_logs_in(server: ServerProcess, connected_app: tuple[str, str]) -> None:
    client = Anypoint(Basic(*connected_app), base_url=server.url)
    assert client.me()["user"]["organizationId"] == "acme"


def test_it_lists_destinations_and_their_live_figures(server: ServerProcess, client: Anypoint) -> None:
    fill(server, "live", sent=3, acked=1)
    [environment] = client.organizations.get_organization().get_environments()
    assert "live" in [destination.queue_id for destination in environment.get_mq_destinations(REGION)]
    figures = environment.get_mq_queues(REGION, ["live"])
    assert figures == [{"destination": "live", "messages": 2, "inflightMessages": 0}]


def test_the_history_of_a_day_is_not_zero(server: ServerProcess, client: Anypoint) -> None:
    fill(server, "past", sent=4, acked=3)
    [environment] = client.organizations.get_organization().get_environments()
    [destination] = [one for one in environment.get_mq_destinations(REGION) if one.queue_id == "past"]
    end = datetime.now(tz=UTC) + timedelta(seconds=1)
    queue = destination.get_queue(end - timedelta(days=1), end)
    assert (queue.destination, queue.messages_sent, queue.messages_received, queue.messages_acked) == ("past", 4, 3, 3)
    assert (queue.messages, queue.messages_visible, queue.inflight_messages) == (1, 1, 0)
