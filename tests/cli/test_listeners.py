"""`courier listeners`, against a real server."""

import json
from pathlib import Path

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


def test_secrets_are_shown_when_they_are_made_or_revealed(courier: Courier, queue: str) -> None:
    made = courier.ok("listeners", "create", queue, "shop", URL)
    secret = made.lines[-1].removeprefix("secret: ")
    assert "whsec_" not in courier.ok("listeners", "show", queue, "shop").out
    assert "whsec_" not in courier.ok("listeners", "list", queue, "--json").out
    assert secret in courier.ok("listeners", "show", queue, "shop", "--reveal").out
    assert courier.ok("listeners", "show", queue, "shop", "--reveal", "--json").json["secret"] == secret


def test_secrets_are_taken_from_files_and_standard_input(courier: Courier, queue: str, tmp_path: Path) -> None:
    secret, bearer, value = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", tmp_path / "bearer", tmp_path / "value"
    bearer.write_text("t0ken\n")
    value.write_text("k3y")
    courier.ok(
        "listeners", "create", queue, "shop", URL, "--secret", "-", "--bearer", f"@{bearer}",
        "--header", f"x-key=@{value}", stdin=f"{secret}\n".encode(),
    )  # fmt: skip
    shown = courier.ok("listeners", "show", queue, "shop", "--reveal", "--json").json
    assert (shown["secret"], shown["settings"]["headers"]) == (secret, {"x-key": "k3y"})
    missing = courier("listeners", "create", queue, "other", URL, "--secret", f"@{tmp_path / 'none'}")
    assert (missing.code, "cannot be read" in missing.err) == (2, True)


def test_the_token_may_stand_in_a_file(courier: Courier, queue: str, tmp_path: Path) -> None:
    file, token = tmp_path / "token", courier.environ["COURIER_TOKEN"]
    file.write_text(f"{token}\n")
    assert courier("queues", "list", COURIER_TOKEN="").code == 4
    courier.ok("queues", "list", COURIER_TOKEN="", COURIER_TOKEN_FILE=str(file))
    courier.ok("queues", "list", "--token", f"@{file}", COURIER_TOKEN="wrong")
    courier.ok("queues", "list", "--token", "-", stdin=file.read_bytes(), COURIER_TOKEN="wrong")
    assert courier("queues", "list", COURIER_TOKEN="wrong", COURIER_TOKEN_FILE=str(file)).code == 4
    found = courier("doctor", "--data", tmp_path / "none", COURIER_TOKEN="", COURIER_TOKEN_FILE=str(file))
    assert "the token is that of root" in found.out


def test_an_asymmetric_listener_shows_its_public_key(courier: Courier, queue: str) -> None:
    made = courier("listeners", "create", queue, "pair", URL, "--signing", "ed25519")
    assert "public key: whpk_" in made.out
    shown = courier.ok("listeners", "show", queue, "pair").out
    assert "whpk_" in shown
    assert "whsk_" not in shown


def test_a_url_that_points_inside_is_refused(courier: Courier, queue: str) -> None:
    refused = courier("listeners", "create", queue, "spy", "http://169.254.169.254/")
    assert refused.code == 1
    assert "link-local" in refused.err


def test_the_audit_tells_who_read_a_secret_and_who_was_denied(courier: Courier, queue: str) -> None:
    courier.ok("listeners", "create", queue, "shop", URL)
    courier.ok("listeners", "show", queue, "shop", "--reveal")
    told = courier.ok("audit", "--kind", "secret_read").lines
    assert "root  from 127.0.0.1" in told[-1]
    kinds = {event["kind"] for event in map(json.loads, courier.ok("audit", "--json").lines)}
    assert {"secret_read", "queue_added", "listener_added"} <= kinds
    auditor = courier.ok("credentials", "create", "auditor", "--may", "audit", "--json").json
    courier.ok("audit", COURIER_TOKEN=auditor["secret"])
    assert courier("queues", "list", COURIER_TOKEN=auditor["secret"]).code == 4
