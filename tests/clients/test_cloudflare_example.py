"""The example for Cloudflare's SDK runs as it is printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import start_server

EXAMPLE = Path(__file__).parents[2] / "examples" / "cloudflare_orders.py"

OUTPUT = """\
sent; 3 orders wait
order A-1, attempt 1: done
order A-2, attempt 1: done
order A-3, attempt 1: failed
order A-3, attempt 2: failed
order A-3, attempt 3: failed
dead letters: A-3
"""


@pytest.mark.slow
def test_the_example_handles_its_orders_every_time_it_runs(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        for _ in range(2):
            program = subprocess.run(
                [sys.executable, EXAMPLE],
                env=os.environ | {"COURIER_URL": server.url, "COURIER_TOKEN": server.token},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (program.stdout, program.returncode) == (OUTPUT, 0), program.stderr
