"""A server's store is taken to PostgreSQL while it works, and served there."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Courier
from tests.support.postgres import shared_cluster
from tests.support.server import start_server


@pytest.mark.slow
def test_a_server_goes_on_where_another_engine_was(tmp_path: Path) -> None:
    database = shared_cluster().store_url(tmp_path / "database")
    order = ("migrate", "--from", f"sqlite:{tmp_path / 'a' / 'data'}", "--to", database)
    with start_server(tmp_path / "a", store="sqlite:") as server:
        courier = Courier(COURIER_URL=server.url, COURIER_TOKEN=server.token)
        courier.ok("queues", "create", "orders")
        courier.ok("send", "orders", "one")
        (lease,) = courier.ok("receive", "orders", "--json").json
        unfinished = courier(*order, "--no-wait")
        assert (unfinished.code, "still being served" in unfinished.err) == (1, True)
        courier.ok("send", "orders", "two")
        assert server.stop() == 0
    done = Courier().ok(*order, "--json")
    assert (done.json["message_count"], done.json["event_count"] > 4) == (2, True)
    assert json.loads(done.err.splitlines()[-1])["ended"] == "done"
    with start_server(tmp_path / "b", store=database) as server:
        courier = Courier(COURIER_URL=server.url, COURIER_TOKEN=server.token)
        courier.ok("ack", "orders", lease["receipt"])
        assert "two" in courier.ok("receive", "orders", "--json").out
    shared_cluster().empty(tmp_path / "database")
