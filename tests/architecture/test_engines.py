"""Which tests run on every engine: those of what a dialect, a delivery or a table must not see the engine through."""

import ast
import re
from pathlib import Path

import pytest

from tests.support.engines import ENGINES
from tests.support.source import PACKAGE, imports_of, modules
from tests.support.stores import SERVED

TESTS = Path(__file__).parents[1]
CHOSEN = re.compile(r"(dialects/\w+|delivery|lake|spark)/test_(crossing|contention|stats|usage|kill|carry_kills)\.py")
SKIPS = {"skip", "skipif", "xfail", "importorskip"}


def files() -> list[Path]:
    return [path for path in sorted(TESTS.rglob("*.py")) if "node_modules" not in path.parts]


def test_every_engine_is_one_that_a_server_can_be_on() -> None:
    assert set(SERVED) | {"sharded"} == set(ENGINES)


def test_crossing_contention_crash_and_statistics_run_on_every_engine() -> None:
    chosen = [path for path in files() if CHOSEN.fullmatch(path.relative_to(TESTS).as_posix())]
    assert len(chosen) >= 9, chosen
    assert [path.name for path in chosen if "every_engine" not in path.read_text()] == []


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_an_engine_knows_rows_and_no_rules(name: str) -> None:
    """Kinds of events, retries and the order of groups are for `core.lifecycle` to know."""
    engine = [module for module in modules() if module.name.startswith(f"couriermq.storage.{name}.")]
    rules = {"couriermq.core.retry", "couriermq.core.routing", "couriermq.core.lifecycle.fifo"}
    assert len(engine) > 10
    assert {module.name for module in engine if rules.intersection(imports_of(module))} == set()
    folder = PACKAGE / "storage" / name
    assert [path.name for path in sorted(folder.glob("*.py")) if "EventKind" in path.read_text()] == []


def test_the_engine_for_many_nodes_has_few_files() -> None:
    folder = PACKAGE / "storage" / "postgres"
    assert len([path for path in folder.iterdir() if path.is_file()]) <= 16


def test_no_test_is_skipped() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path in files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in SKIPS and ast.unparse(node).startswith("pytest.")
    ]
    assert found == []


@pytest.mark.every_engine
def test_a_marked_test_gets_each_engine(engine: str, request: pytest.FixtureRequest) -> None:
    assert engine in SERVED
    assert (request.node.get_closest_marker("postgres") is not None) == (engine == "postgres")
