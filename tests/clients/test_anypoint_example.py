"""The example runs against a real server and says what it did."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import start_server

EXAMPLE = Path(__file__).parents[2] / "examples" / "anypoint_orders.py"

SAID = """\
published order-1: successful
published order-2: successful
published order-3: successful
published order-4: successful
order-1 done
order-2 takes a while: locked for another minute
order-2 done
order-3 failed in delivery 1
order-4 done
order-3 failed in delivery 2
order-3 drained from example-orders-failed
"""


@pytest.mark.slow
def test_the_example_does_what_it_says(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        environ = os.environ | {"COURIER_URL": server.url, "COURIER_TOKEN": server.token}
        for _ in range(2):  # it cleans up after itself
            done = subprocess.run(
                [sys.executable, EXAMPLE], env=environ, capture_output=True, text=True, timeout=60, check=False
            )
            assert (done.stderr, done.stdout) == ("", SAID)
