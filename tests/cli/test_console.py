"""`courier console`: an address that signs in."""

import pytest
import requests

from tests.cli.conftest import Courier

pytestmark = pytest.mark.slow


def test_the_address_signs_a_browser_in_once(courier: Courier) -> None:
    printed = courier.ok("console", "--json").json["url"]
    base, _, ticket = printed.partition("/console#ticket=")
    for expected in (200, 401):
        answer = requests.post(
            f"{base}/console/session", json={"ticket": ticket}, headers={"Courier-Console": "1"}, timeout=10
        )
        assert answer.status_code == expected


def test_without_a_browser_the_address_is_printed(courier: Courier) -> None:
    assert "/console#ticket=" in courier.ok("console", "--print").out
