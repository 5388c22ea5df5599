"""`courier workers`, against a real server."""

from pathlib import Path

import pytest

from couriermq.workers import BRIDGE
from tests.cli.conftest import Courier

pytestmark = pytest.mark.slow

URL = "https://workers.example/bridge"


def test_a_worker_from_its_attachment_to_its_end(courier: Courier) -> None:
    assert "no Workers yet" in courier("workers", "list").err
    made = courier("workers", "attach", "shop", URL)
    assert made.code == 0, made.err
    assert f"attached shop to {URL}, which serves no queue yet" in made.out
    assert "COURIER_SECRET for the bridge: whsec_" in made.out
    assert "whsec_" not in courier("workers", "attach", "shop", URL + "/2").out, "the secret stays"
    (listed,) = courier("workers", "list", "--json").json
    assert (listed["script"], listed["url"]) == ("shop", URL + "/2")
    assert "shop" in courier("workers", "list").out
    assert courier("workers", "detach", "shop", "--yes").code == 0
    assert courier("workers", "detach", "shop", "--yes").code == 3


def test_an_address_of_this_machine_must_be_allowed(courier: Courier) -> None:
    refused = courier("workers", "attach", "shop", "http://127.0.0.1:8787/")
    assert refused.code == 1
    assert "COURIER_DELIVERY_ALLOW=127.0.0.0/8" in refused.err


def test_the_bridge_is_printed_or_written(courier: Courier, tmp_path: Path) -> None:
    assert courier("workers", "bridge").out == BRIDGE.read_text()
    file = tmp_path / "bridge.mjs"
    assert courier("workers", "bridge", file).code == 0
    assert file.read_text() == BRIDGE.read_text()
    again = courier("workers", "bridge", file)
    assert (again.code, "--force" in again.err) == (1, True)
    assert courier("workers", "bridge", file, "--force").code == 0
