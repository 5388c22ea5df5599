"""Several real servers on one PostgreSQL: whichever is asked, the answer is the same."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from tests.support.eventually import eventually_sync
from tests.support.postgres import Cluster, shared_cluster
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

QUEUES = "/courier/v1/tenants/default/queues"
ORDERS = f"{QUEUES}/orders"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    store = shared_cluster().store_url(tmp_path)
    with (
        start_server(tmp_path, data=tmp_path / "one", store=store) as one,
        start_server(tmp_path, data=tmp_path / "other", store=store) as other,
    ):
        yield one, other


def test_any_node_serves_any_request(nodes: tuple[ServerProcess, ServerProcess]) -> None:
    one, other = nodes
    assert one.session.post(f"{one.url}{QUEUES}", json={"name": "orders"}).status_code == 201
    assert other.session.get(f"{other.url}{ORDERS}").status_code == 200
    assert other.session.post(f"{other.url}{ORDERS}/messages", json={"body": "hello"}).status_code == 201
    (lease,) = one.session.post(f"{one.url}{ORDERS}/receive", json={}).json()["leases"]
    assert lease["message"]["body"] == "hello"
    settled = other.session.post(f"{other.url}{ORDERS}/ack", json={"receipt": lease["receipt"]})
    assert settled.status_code == 200
    again = one.session.post(f"{one.url}{ORDERS}/ack", json={"receipt": lease["receipt"]})
    assert again.status_code == 409
    assert one.stop() == 0


def test_what_one_node_has_made_every_other_knows_at_once(nodes: tuple[ServerProcess, ServerProcess]) -> None:
    one, other = nodes
    for number in range(20):
        name = f"q{number}"
        assert one.session.post(f"{one.url}{QUEUES}", json={"name": name}).status_code == 201
        assert other.session.post(f"{other.url}{QUEUES}/{name}/messages", json={"body": "x"}).status_code == 201
        heir = {"name": f"heir{number}", "settings": {"dead_letter_queue": name}}
        assert other.session.post(f"{other.url}{QUEUES}", json=heir).status_code == 201
    credentials = "/courier/v1/tenants/default/credentials"
    made = one.session.post(f"{one.url}{credentials}", json={"name": "shop"})
    assert made.status_code == 201, made.text
    bearer = {"Authorization": f"Bearer {made.json()['secret']}"}
    assert requests.get(f"{other.url}{QUEUES}", headers=bearer).status_code == 200
    assert requests.get(f"{other.url}{QUEUES}", headers={"Authorization": "Bearer x"}).status_code == 401


def test_a_node_that_is_killed_costs_nothing_but_its_connections(nodes: tuple[ServerProcess, ServerProcess]) -> None:
    one, other = nodes
    one.session.post(f"{one.url}{QUEUES}", json={"name": "orders"})
    for _ in range(5):
        assert one.session.post(f"{one.url}{ORDERS}/messages", json={"body": "x"}).status_code == 201
    one.session.post(f"{one.url}{ORDERS}/receive", json={"limit": 2, "lease_ms": 1_000})
    one.kill()
    taken: list[str] = []

    def drain() -> bool:
        order = {"limit": 10, "wait_ms": 500}
        leases = other.session.post(f"{other.url}{ORDERS}/receive", json=order).json()["leases"]
        taken.extend(lease["message"]["id"] for lease in leases)
        return len(taken) == 5

    eventually_sync(drain)  # the two that the dead node had leased come back at their time
    assert len(set(taken)) == 5


def test_a_node_that_starts_before_its_database_serves_once_that_is_there(tmp_path: Path) -> None:
    cluster = Cluster()
    try:
        store = cluster.store_url(tmp_path)
        cluster.stop()
        (tmp_path / "data").mkdir()
        node = ServerProcess(tmp_path / "data", {"store": store})
        with ThreadPoolExecutor() as threads:
            started = threads.submit(node.start)
            eventually_sync(lambda: "cannot be opened yet" in node.output)
            cluster.start()
            started.result()
        assert requests.get(f"{node.url}/readyz").status_code == 200
        assert node.session.post(f"{node.url}{QUEUES}", json={"name": "orders"}).status_code == 201
        cluster.stop()
        unready = eventually_sync(lambda: requests.get(f"{node.url}/readyz"), lambda reply: reply.status_code == 503)
        refused = node.session.post(f"{node.url}{ORDERS}/messages", json={"body": "x"})
        assert refused.status_code == 503
        for reply in (unready, refused):
            assert "the database cannot be reached" in reply.text
            assert cluster.folder.name not in reply.text
        node.kill()
    finally:
        cluster.remove()
