"""Time and randomness enter through `couriermq.clock` and nowhere else, in Python and in SQL."""

import re

import pytest

from tests.support.source import Module, attribute_uses, imports_of, modules, sql_files, string_constants

CLOCK = "couriermq.clock"

DICE = {"random", "secrets", "uuid"}
METERS = {"perf_counter", "perf_counter_ns", "process_time", "monotonic", "monotonic_ns", "sleep"}
"""What `time` may be used for elsewhere: to measure and, in the CLI, to wait; none of them tells the time."""
CALENDAR = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "os.urandom"}

SQL_TIME = re.compile(
    r"\b(?:date|time|datetime|julianday|unixepoch|strftime)\s*\([^)]*'now'|\bunixepoch\s*\(\s*\)"
    r"|\bcurrent_(?:timestamp|time|date)\b|\bnow\s*\(\s*\)|\brandom(?:blob)?\s*\(",
    re.IGNORECASE,
)


def others() -> list[Module]:
    return [module for module in modules() if module.name != CLOCK]


def tells_time(name: str) -> bool:
    module, _, attribute = name.partition(".")
    return (module == "time" and attribute not in METERS) or name in CALENDAR


def times_told(module: Module) -> list[str]:
    """Every place where a module asks for the time."""
    imports = set(imports_of(module))
    imported = [name for name in imports if name.startswith("time.") and tells_time(name)]
    used = [
        f"{name} in line {line}"
        for name, line in attribute_uses(module)
        if tells_time(name) and ("time" in imports or not name.startswith("time."))
    ]
    return imported + used


def test_only_the_clock_tells_the_time() -> None:
    assert {module.name: told for module in others() if (told := times_told(module))} == {}


def test_only_the_clock_throws_dice() -> None:
    assert [m.name for m in others() if {name.split(".")[0] for name in imports_of(m)} & DICE] == []


def test_sql_is_told_the_time() -> None:
    code = {path.name: re.sub(r"--.*", "", path.read_text()) for path in sql_files()}
    assert code
    assert [name for name, text in code.items() if SQL_TIME.search(text)] == []


def test_sql_inside_python_is_told_the_time_too() -> None:
    texts = [text for m in modules() if ".storage" in m.name for text, _ in string_constants(m)]
    statements = [text for text in texts if re.search(r"\b(SELECT|INSERT|UPDATE|DELETE)\b", text)]
    assert [text for text in statements if SQL_TIME.search(text)] == []


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT datetime('now')", True),
        ("SELECT strftime('%s', 'now')", True),
        ("DEFAULT CURRENT_TIMESTAMP", True),
        ("SELECT now()", True),
        ("ORDER BY random()", True),
        ("WHERE due_at <= :now", False),
        ("SELECT min(known) FROM randomness", False),
    ],
)
def test_the_pattern_finds_sql_that_asks_for_the_time(sql: str, expected: bool) -> None:
    assert bool(SQL_TIME.search(sql)) is expected
