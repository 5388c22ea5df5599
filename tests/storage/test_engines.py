"""An engine that exists is an engine that the conformance suite runs on, and nothing of that suite is skipped."""

import ast
from pathlib import Path

import couriermq.storage
from tests.support.engines import ENGINES

HERE = Path(__file__).parent
ELSEWHERE = {"test_engines.py", "test_engines_migrating.py", "test_histories.py", "test_trimming.py"}
"""These concern several engines or none, or name their engine themselves."""


def test_no_engine_is_left_out() -> None:
    folder = Path(couriermq.storage.__file__).parent
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert packages == set(ENGINES)


def test_every_test_of_the_suite_runs_on_the_rig_of_every_engine() -> None:
    tests = {
        f"{path.name}::{node.name}": {argument.arg for argument in node.args.args}
        for path in HERE.glob("test_*.py")
        if path.name not in ELSEWHERE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }
    assert len(tests) > 100
    assert [test for test, arguments in tests.items() if "rig" not in arguments] == []
