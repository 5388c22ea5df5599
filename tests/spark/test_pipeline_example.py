"""The walk through the pipeline runs against a real server and says what it did."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import start_server

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline.py"

SAID = """\
             sent  received  acked  dead_lettered  arrived
queue                                                     
walk-failed     0         0      0              0        3
walk-orders    10        13      7              3        0
{'acked': 7, 'dead_lettered': 3}
replayed: [7, 8, 9]
sent: 10
report: True
"""  # noqa: W291 - as pandas prints it


@pytest.mark.slow
def test_the_walk_does_what_it_says(tmp_path: Path, engine: str) -> None:
    with start_server(tmp_path, engine=engine) as server:
        environ = os.environ | {"COURIER_URL": server.url, "COURIER_TOKEN": server.token}
        done = subprocess.run(
            [sys.executable, EXAMPLE], env=environ, capture_output=True, text=True, timeout=900, check=False
        )
    assert done.returncode == 0, done.stderr
    first, _, rest = done.stdout.partition("\n")
    assert {"events", "messages", "queue_minutes"} <= set(first.removeprefix("tables: ").split(", "))
    assert rest == SAID
