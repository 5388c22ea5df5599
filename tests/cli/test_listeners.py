"""`courier listeners`, against a real server."""

import pytest

from tests.cli.conftest import Courier

pytestmark = pytest.mark.slow

URL = "https://shop.example/hooks"


@pytest.fixture
def queue(courier: Courier) -> str:
    name = "heard"
    courier("queues", "delete", name, "--yes")
    assert courier("queues", "create", name).code == 0
    return name


def test_a_listener_from_its_making_to_its_end(courier: Courier, queue: str) -> None:
    made = courier(
        "listeners", "create", queue, "shop", URL, "--schedule", "5s,5m", "--timeout", "3s", "--concurrency", 2,
        "--rule", "$.total >= 100", "--header", "x-shop=1", "--bearer", "t0ken",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert "secret: whsec_" in made.out

    shown = courier("listeners", "show", queue, "shop")
    for fact in ("active", URL, "5s, 5m", "3s", "$.total ge 100", "x-shop", "bearer", "breaker"):
        assert fact in shown.out
    assert courier("listeners", "list", queue, "--json").json[0]["settings"]["concurrency"] == 2
    assert "shop" in courier("listeners", "list").out

    assert courier("listeners", "change", queue, "shop", "--name", "store", "--concurrency", 3).code == 0
    assert courier("listeners", "pause", queue, "store").code == 0
    assert "paused" in courier("listeners", "list", queue).out
    assert courier("listeners", "resume", queue, "store").code == 0
    assert courier("listeners", "rotate", queue, "store", "--overlap", "1h").out.count("whsec_") == 1
    assert "0 messages" in courier("listeners", "replay", queue, "store").out
    assert "nothing was delivered yet" in courier("listeners", "log", queue, "store").err
    assert courier("listeners", "delete", queue, "store", "--yes").code == 0
    assert courier("listeners", "show", queue, "store").code == 3


def test_an_asymmetric_listener_shows_its_public_key(courier: Courier, queue: str) -> None:
    made = courier("listeners", "create", queue, "pair", URL, "--signing", "ed25519")
    assert "public key: whpk_" in made.out


def test_a_url_that_points_inside_is_refused(courier: Courier, queue: str) -> None:
    refused = courier("listeners", "create", queue, "spy", "http://169.254.169.254/")
    assert refused.code == 1
    assert "link-local" in refused.err
