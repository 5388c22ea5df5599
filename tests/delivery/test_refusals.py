"""Where a real server does not deliver to, whatever a listener says."""

import socket
from pathlib import Path

import pytest

from tests.support.server import start_server

pytestmark = pytest.mark.slow

QUEUES = "/courier/v1/tenants/default/queues"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1"],
)
def test_by_default_nothing_inside_can_be_listened_from(tmp_path: Path, host: str) -> None:
    with start_server(tmp_path) as server:
        http = server.session
        http.post(server.url + QUEUES, json={"name": "orders"})
        order = {"name": "spy", "url": f"http://{host}:{server.url.rpartition(':')[2]}/metrics"}
        refused = http.post(f"{server.url}{QUEUES}/orders/listeners", json=order)
        assert (refused.status_code, refused.json()["field"]) == (400, "url")


def test_a_network_that_is_no_longer_allowed_is_not_dialled(tmp_path: Path) -> None:
    with socket.socket() as trap:
        trap.bind(("127.0.0.1", 0))
        trap.listen()
        trap.settimeout(0.1)
        url = f"http://127.0.0.1:{trap.getsockname()[1]}/"
        with start_server(tmp_path, delivery_allow="127.0.0.0/8") as server:
            server.session.post(server.url + QUEUES, json={"name": "orders"})
            made = server.session.post(f"{server.url}{QUEUES}/orders/listeners", json={"name": "one", "url": url})
            assert made.status_code == 201
        with start_server(tmp_path) as server:
            http = server.session
            http.post(f"{server.url}{QUEUES}/orders/messages", json={"body": "hello"})
            lines: list[dict[str, object]] = []
            while not lines:
                lines = http.get(f"{server.url}{QUEUES}/orders/listeners/one/deliveries").json()["deliveries"]
            assert "loopback" in str(lines[0]["error"])
        with pytest.raises(TimeoutError):
            trap.accept()


def test_a_network_that_is_none_is_named_at_the_start(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match=r"delivery_allow has 'ten\.0'"),
        start_server(tmp_path, delivery_allow="ten.0"),
    ):
        pass
