"""Small files, small functions, names that say the thing."""

import statistics

import pytest

from tests.support.source import Module, functions_of, modules

LINES_OF_A_FILE = 600
MEDIAN_OF_FILES = 250
MEDIAN_OF_FUNCTIONS = 8
LINES_OF_NINE_IN_TEN = 30
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "manager", "managers", "common", "misc", "shared", "base_utils"}


def length(function) -> int:
    """Lines of a function's body; its signature and its promise cost nothing."""
    body = function.body[1:] if function.body and _is_docstring(function.body[0]) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def _is_docstring(statement) -> bool:
    return hasattr(statement, "value") and isinstance(getattr(statement.value, "value", None), str)


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)
def test_a_file_can_be_read_in_one_sitting(module: Module) -> None:
    assert module.line_count <= LINES_OF_A_FILE


def test_most_files_are_short() -> None:
    assert statistics.median(module.line_count for module in modules()) <= MEDIAN_OF_FILES


def test_most_functions_are_a_few_lines() -> None:
    lengths = sorted(length(function) for module in modules() for function in functions_of(module))
    assert statistics.median(lengths) <= MEDIAN_OF_FUNCTIONS
    assert lengths[len(lengths) * 9 // 10] < LINES_OF_NINE_IN_TEN


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)
def test_a_module_is_named_for_what_it_holds(module: Module) -> None:
    assert EMPTY_NAMES.isdisjoint(module.name.split("."))


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)
def test_a_module_says_what_it_is_for(module: Module) -> None:
    assert module.tree.body
    assert _is_docstring(module.tree.body[0])
