"""How a long job says how far it is."""

import json
import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from couriermq.cli.progress import Progress


class Watch:
    """A stopwatch that is turned by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    printed = capsys.readouterr()
    assert printed.out == ""
    return [json.loads(line) for line in printed.err.splitlines()]


def test_programs_get_a_line_a_second_and_one_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch()
    with Progress("exporting", unit="message", total=100, clock=watch) as progress:
        for _ in range(20):
            watch.seconds += 0.125
            progress.advance(5, file="a.parquet")
    told = lines(capsys)
    assert [line["done"] for line in told] == [40, 80, 100]
    first = {"job": "exporting", "done": 40, "total": 100, "unit": "message", "rate": 40.0, "seconds": 1.0}
    assert told[0] == first | {"file": "a.parquet"}
    assert told[-1]["ended"] == "done"


def test_a_job_that_fails_says_how_far_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with Progress("importing", unit="message") as progress:
            progress.reach(7, total=9)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        work()
    (line,) = lines(capsys)
    assert (line["done"], line["total"], line["ended"]) == (7, 9, "failed")


@pytest.mark.slow
def test_people_get_a_bar_with_its_rate_on_standard_error() -> None:
    script = """
import time
from couriermq.cli.progress import Progress
with Progress("exporting", unit="message", total=2_000) as progress:
    for _ in range(20):
        progress.advance(100, batch=3)
        time.sleep(0.02)
print("result")
"""
    ours, theirs = pty.openpty()
    environ = os.environ | {"COLUMNS": "120", "TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=theirs, env=environ, check=True, timeout=60
    )
    drawn = os.read(ours, 100_000).decode()
    os.close(ours)
    os.close(theirs)
    assert done.stdout == b"result\n"
    assert "exporting" in drawn
    assert "messages" in drawn
    assert "/s" in drawn
    assert "batch 3" in drawn
