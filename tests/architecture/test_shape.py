"""Small files, small functions, names that say the thing."""

import ast
import statistics

from tests.support.source import functions_of, modules

LINES_OF_A_FILE = 500
MEDIAN_OF_FILES = 250
MEDIAN_OF_FUNCTIONS = 7
LINES_OF_NINE_IN_TEN = 30
LINES_OF_A_FUNCTION = 50
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "manager", "managers", "common", "misc", "shared", "base_utils"}


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function's body; its signature and its promise cost nothing."""
    body = function.body[1:] if function.body and _is_docstring(function.body[0]) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _is_docstring(statement: ast.stmt) -> bool:
    return hasattr(statement, "value") and isinstance(getattr(statement.value, "value", None), str)


def test_a_file_can_be_read_in_one_sitting() -> None:
    assert {m.name: m.line_count for m in modules() if m.line_count > LINES_OF_A_FILE} == {}


def test_most_files_are_short() -> None:
    assert statistics.median(module.line_count for module in modules()) <= MEDIAN_OF_FILES


def test_most_functions_are_a_few_lines() -> None:
    lengths = sorted(length(function) for module in modules() for function in functions_of(module))
    assert statistics.median(lengths) <= MEDIAN_OF_FUNCTIONS
    assert lengths[len(lengths) * 9 // 10] < LINES_OF_NINE_IN_TEN
    assert lengths[-1] <= LINES_OF_A_FUNCTION


def test_a_module_is_named_for_what_it_holds() -> None:
    assert [m.name for m in modules() if EMPTY_NAMES.intersection(m.name.split("."))] == []


def test_a_module_says_what_it_is_for() -> None:
    assert [m.name for m in modules() if not m.tree.body or not _is_docstring(m.tree.body[0])] == []
