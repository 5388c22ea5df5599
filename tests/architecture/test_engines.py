"""A whole Courier serves on every engine alike: the suites of what it serves leave none out."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.engines import ENGINES
from tests.support.stores import SERVED, UNCHOSEN, choosing, store_settings

TESTS = Path(__file__).parents[1]
SUITES = {"dialects": 500, "delivery": 80, "spark": 50, "lake": 10, "journal": 30}
"""Those that run on every engine, and the least number of their tests that need a store."""
OWN = re.compile(rf"::\w*_({'|'.join(SERVED)})_")
"""A test of what only one engine does says so in its name."""
_ITEM = re.compile(r"tests/(?P<suite>\w+)/(?P<test>\S+\.py::\w+)(?:\[(?P<case>.*)\])?")


def test_every_engine_is_one_that_a_server_can_be_on() -> None:
    assert set(SERVED) | {"sharded"} == set(ENGINES)


def test_a_test_of_these_suites_cannot_start_a_server_without_an_engine(tmp_path: Path) -> None:
    with choosing(UNCHOSEN), pytest.raises(AssertionError, match="ask for the fixture `engine`"):
        store_settings(tmp_path)


@pytest.mark.slow
def test_every_test_with_a_store_runs_on_every_engine() -> None:
    folders = [f"tests/{suite}" for suite in SUITES]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-o", "addopts=", "--import-mode=importlib", "-q"]
    listed = subprocess.run([*command, *folders], capture_output=True, text=True, check=True, cwd=TESTS.parent).stdout
    engines: dict[str, dict[str, set[str]]] = {suite: defaultdict(set) for suite in SUITES}
    for found in map(_ITEM.fullmatch, listed.splitlines()):
        if found and (on := set(ENGINES) & set((found["case"] or "").split("-"))):
            engines[found["suite"]][found["test"]] |= on
    assert {suite: len(tests) for suite, tests in engines.items() if len(tests) < SUITES[suite]} == {}
    left_out = [test for tests in engines.values() for test, on in tests.items() if not on >= set(SERVED)]
    assert [test for test in left_out if not OWN.search(test)] == []
