"""An engine that exists is an engine that this suite runs on: every test of it, nothing skipped."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import couriermq.storage
from tests.support.engines import ENGINES

HERE = Path(__file__).parent
OWN = re.compile(rf"test_({'|'.join(map(re.escape, ENGINES))}|engines|power_cut)(_\w+)?\.py")
"""Tests of what only one engine promises, or several together, which are named for it; a power cut is about an engine
that has files."""
_SKIPPED = re.compile(r"\b(skip|skipif|xfail|importorskip)\b(?!\s*$)")
_ITEM = re.compile(r"(?P<test>\S+\.py::\w+)(?:\[(?P<case>.*)\])?")


def test_no_engine_is_left_out() -> None:
    folder = Path(couriermq.storage.__file__).parent
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert packages == set(ENGINES)


@pytest.mark.slow
def test_every_test_that_says_what_an_engine_is_runs_on_every_engine() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-o", "addopts=", "--quiet", str(HERE)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE.parents[1]).stdout
    engines: dict[str, set[str]] = defaultdict(set)
    for found in map(_ITEM.fullmatch, listed.splitlines()):
        if found and not OWN.fullmatch(Path(found["test"].partition("::")[0]).name):
            engines[found["test"]] |= set(ENGINES) & set((found["case"] or "").split("-"))
    assert len(engines) > 100
    assert {test: sorted(on) for test, on in engines.items() if on != set(ENGINES)} == {}


def test_no_test_of_an_engine_is_skipped() -> None:
    lines = [
        f"{path.name}: {line.strip()}"
        for path in HERE.glob("*.py")
        if path != Path(__file__)
        for line in path.read_text().splitlines()
        if _SKIPPED.search(line.replace("fmt: skip", ""))
    ]
    assert lines == []
