"""The example for discue.io runs as it is printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import start_server

EXAMPLE = Path(__file__).parents[2] / "examples" / "discue_orders.py"

OUTPUT = """\
arrived, and signed by Courier: {"order": "A-1", "total": 19.9}
arrived, and signed by Courier: {"order": "A-2", "total": 5}
"""


@pytest.mark.slow
def test_the_example_receives_its_orders_every_time_it_runs(tmp_path: Path) -> None:
    with start_server(tmp_path, delivery_allow="127.0.0.0/8") as server:
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
