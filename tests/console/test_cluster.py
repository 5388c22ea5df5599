"""The console of one node shows what happens through the others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.support import Console
from tests.support.cluster import started_nodes
from tests.support.postgres import shared_cluster
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[ServerProcess]]:
    """Three nodes on one PostgreSQL."""
    with started_nodes(tmp_path, shared_cluster().store_url(tmp_path)) as nodes:
        yield nodes
    shared_cluster().empty(tmp_path)


def test_a_page_shows_what_happens_through_other_nodes(page: Page, nodes: list[ServerProcess]) -> None:
    watching, sending, receiving = (Console(page, node) for node in nodes)
    queue = watching.queue()
    made = watching.call("POST", "/credentials", {"name": "billing"})
    watching.sign_in().open("queues")
    row = page.get_by_role("row").filter(has_text=queue)
    ready, leased = (row.get_by_role("cell").nth(number) for number in (2, 4))
    expect(ready).to_have_text("0")

    sent = [sending.send(queue)["id"] for _ in range(3)]
    expect(ready).to_have_text("3")

    token = {"Authorization": f"Bearer {made['secret']}"}
    [lease] = receiving.call("POST", f"/queues/{queue}/receive", {"lease_ms": 600_000}, headers=token)["leases"]
    expect(ready).to_have_text("2")
    expect(leased).to_have_text("1")
    assert lease["message"]["id"] in sent

    watching.open("queues", queue, "receivers")
    expect(page.get_by_role("row").filter(has_text=lease["message"]["id"])).to_contain_text("billing")
