"""MuleSoft's Terraform provider as a client: its requests, and how its Go client reads the answers.

The provider sends every number of a resource, 0 for one that the configuration leaves out, and asks for lists with
`inclusion=ALL` and one `destinationIds` for each id. Its client decodes into Go's types, takes 404 for a resource that
is gone, and rejects an environment with a field that it does not know.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

PLACE = "/mq/admin/api/v1/organizations/default/environments/default/regions/us-east-1"
QUEUE_TYPES = {
    "queueId": str, "type": str, "encrypted": bool, "fifo": bool, "defaultTtl": int, "defaultLockTtl": int,
    "defaultDeliveryDelay": int,
}  # fmt: skip
ENVIRONMENT_FIELDS = {"id", "name", "organizationId", "isProduction", "type", "clientId"}
UNSET = {
    "type": "queue", "defaultTtl": 0, "defaultLockTtl": 0, "encrypted": False, "defaultDeliveryDelay": 0, "fifo": False,
}  # fmt: skip


class Provider:
    """What the provider does, call by call."""

    def __init__(self, server: ServerProcess) -> None:
        self.url = server.url
        credentials = {"client_id": "root", "client_secret": server.token, "grant_type": "client_credentials"}
        answer = requests.post(f"{self.url}/accounts/api/v2/oauth2/token", json=credentials, timeout=30).json()
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {answer['access_token']}"

    def call(self, method: str, path: str, **options: Any) -> Any:
        answer = self.session.request(method, self.url + path, timeout=30, **options)
        if answer.status_code == 404:
            return None
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def queue(self, queue: str) -> Any:
        found = self.call("GET", f"{PLACE}/destinations/queues/{queue}")
        if found is not None:
            assert_queue(found)
        return found

    def apply(self, method: str, queue: str, **attributes: Any) -> Any:
        self.call(method, f"{PLACE}/destinations/queues/{queue}", json={**UNSET, **attributes})
        return self.queue(queue)


def assert_queue(found: dict[str, Any]) -> None:
    assert {name: type(found[name]) for name in QUEUE_TYPES} == QUEUE_TYPES
    assert all(-(2**31) <= found[name] < 2**31 for name, kind in QUEUE_TYPES.items() if kind is int)


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with start_server(tmp_path_factory.mktemp("terraform")) as server:
        yield Provider(server)


def test_a_queue_with_only_its_required_attributes(provider: Provider) -> None:
    found = provider.apply("PUT", "plain")
    assert (found["defaultTtl"], found["defaultLockTtl"], found["defaultDeliveryDelay"]) == (604_800_000, 120_000, 0)
    provider.call("DELETE", f"{PLACE}/destinations/queues/plain")
    assert provider.queue("plain") is None


def test_a_queue_with_dead_letters_that_are_removed_again(provider: Provider) -> None:
    provider.apply("PUT", "failed")
    ours = {"defaultTtl": 3_600_000, "defaultLockTtl": 60_000, "defaultDeliveryDelay": 1_000}
    found = provider.apply("PUT", "orders", **ours, deadLetterQueueId="failed", maxDeliveries=3)
    assert (found["deadLetterQueueId"], found["maxDeliveries"]) == ("failed", 3)
    changed = provider.apply("PATCH", "orders", **ours | {"defaultTtl": 7_200_000})
    assert "deadLetterQueueId" not in changed
    assert (changed["defaultTtl"], changed["defaultLockTtl"]) == (7_200_000, 60_000)


def test_the_data_source_of_queues(provider: Provider) -> None:
    for name in ("list-a", "list-b", "list-c"):
        provider.apply("PUT", name)
    provider.call("PUT", f"{PLACE}/destinations/exchanges/list-x", json={"encrypted": False})
    query: list[tuple[str, Any]] = [("inclusion", "ALL"), ("destinationType", "queue"), ("offset", 0), ("limit", 20)]
    chosen = [*query, ("destinationIds", "list-a"), ("destinationIds", "list-c")]
    found = provider.call("GET", f"{PLACE}/destinations", params=chosen)
    for one in found:
        assert_queue(one)
    assert [one["queueId"] for one in found] == ["list-a", "list-c"]
    prefixed = provider.call("GET", f"{PLACE}/destinations", params=[*query, ("startsWith", "list-")])
    assert [one["queueId"] for one in prefixed] == ["list-a", "list-b", "list-c"]


RULES = [
    {"propertyName": "region", "propertyType": "STRING", "matcherType": "EQ", "value": "eu"},
    {"propertyName": "region", "propertyType": "STRING", "matcherType": "EXISTS", "value": True},
    {"propertyName": "region", "propertyType": "STRING", "matcherType": "ANY_OF", "value": ["eu", "us"]},
    {"propertyName": "total", "propertyType": "NUMERIC", "matcherType": "GE", "value": 10.5},
    {"propertyName": "total", "propertyType": "NUMERIC", "matcherType": "RANGE", "value": [1, 10]},
]


def test_an_exchange_its_binding_and_its_rules(provider: Provider) -> None:
    provider.apply("PUT", "bound")
    exchange = provider.call("PUT", f"{PLACE}/destinations/exchanges/news", json={"encrypted": True})
    assert exchange == {"type": "exchange", "exchangeId": "news", "encrypted": True}
    binding = f"{PLACE}/bindings/exchanges/news/queues/bound"
    made = provider.call("PUT", binding)
    assert {name: made[name] for name in ("queueId", "exchangeId", "fifo")} == {
        "queueId": "bound",
        "exchangeId": "news",
        "fifo": False,
    }
    for rule in RULES:
        provider.call("PUT", f"{binding}/rules/routing", json={"routingRules": [rule]})
        assert provider.call("GET", binding, params={"inclusion": "ALL"})["routingRules"] == [rule]
    provider.call("DELETE", f"{binding}/rules/routing")
    assert provider.call("GET", binding, params={"inclusion": "ALL"})["routingRules"] == []
    provider.call("DELETE", binding)
    assert provider.call("GET", binding, params={"inclusion": "ALL"}) is None


def test_the_data_sources_of_organizations_and_environments(provider: Provider) -> None:
    organization = provider.call("GET", "/accounts/api/organizations/default")
    assert (organization["id"], organization["isRoot"], type(organization["entitlements"])) == ("default", True, dict)
    found = provider.call("GET", "/accounts/api/organizations/default/environments")
    single = provider.call("GET", "/accounts/api/organizations/default/environments/default")
    assert (found["total"], found["data"]) == (1, [single])
    assert set(single) <= ENVIRONMENT_FIELDS
