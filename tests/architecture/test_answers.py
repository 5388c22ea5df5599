"""Every error of the tree has an answer in every dialect, and overload tells when to come back."""

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import couriermq.core.errors
import couriermq.web.errors  # its errors belong to the same tree
from couriermq.config import Settings
from couriermq.core.errors import CourierError, TooManyRequests, Unavailable
from couriermq.web.call import ANONYMOUS, Call
from tests.support.source import PACKAGE

FOLDER = PACKAGE / "dialects"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/__init__.py"))
ARGUMENTS: dict[Any, Any] = {str: "orders", int: 7, bytes: b"x", tuple[str, ...]: ("GET", "PUT")}


def leaves(root: type[CourierError]) -> Iterator[type[CourierError]]:
    children = root.__subclasses__()
    if not children:
        yield root
    for child in children:
        yield from leaves(child)


def dialect_named(name: str) -> Any:
    return importlib.import_module(f"couriermq.dialects.{name}").dialect(Settings())


def example_of(error: type[CourierError]) -> CourierError:
    """An error of the class, made from what its signature asks for."""
    if "__init__" not in vars(error):
        return error("something is wrong")
    parameters = list(inspect.signature(error).parameters.values())
    return error(*(ARGUMENTS[each.annotation] for each in parameters if each.default is each.empty))


def a_call_to(dialect: Any) -> Call:
    params = dict.fromkeys(("tenant", "queue", "account_id", "org", "organization", "environment"), "default")
    return Call(
        method="GET", path=dialect.prefixes[0], raw_query=b"", raw_headers=[], body=b"", params=params,
        services=None, principal=ANONYMOUS,  # type: ignore[arg-type]
    )  # fmt: skip


LEAVES = sorted(
    {leaf for leaf in leaves(CourierError) if leaf.__module__.startswith("couriermq.")}, key=lambda e: e.__name__
)


def test_the_tree_in_the_docstring_names_every_error_of_the_core() -> None:
    missing = [
        leaf.__name__
        for leaf in LEAVES
        if leaf.__module__ == "couriermq.core.errors" and leaf.__name__ not in (couriermq.core.errors.__doc__ or "")
    ]
    assert missing == []


def test_there_is_a_dialect_to_ask() -> None:
    assert "native" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_error_has_an_answer_in_every_dialect(name: str) -> None:
    dialect = dialect_named(name)
    assert [leaf.__name__ for leaf in LEAVES if dialect.answer_for(leaf) is None] == []


@pytest.mark.parametrize("name", NAMES)
def test_an_error_is_answered_as_a_failure_of_caller_or_server(name: str) -> None:
    dialect = dialect_named(name)
    call = a_call_to(dialect)
    status = {leaf.__name__: dialect.failure(example_of(leaf), call).status for leaf in LEAVES}
    assert {each: code for each, code in status.items() if not 400 <= code <= 599 or code == 500} == {}


@pytest.mark.parametrize("name", NAMES)
def test_overload_is_told_from_a_mistake_of_the_caller(name: str) -> None:
    dialect = dialect_named(name)
    assert dialect.failure(TooManyRequests(1_500), a_call_to(dialect)).status == 429
    assert dialect.failure(Unavailable("the disk is full"), a_call_to(dialect)).status == 503


@pytest.mark.parametrize("name", NAMES)
def test_a_bug_of_ours_is_a_500_that_tells_nothing(name: str) -> None:
    dialect = dialect_named(name)
    reply = dialect.crash(a_call_to(dialect))
    assert reply.status == 500
    assert b"Traceback" not in reply.body


@pytest.mark.parametrize("name", NAMES)
def test_a_dialects_routes_lie_under_its_prefixes(name: str) -> None:
    dialect = dialect_named(name)
    strays = [r.pattern for r in dialect.routes if not r.pattern.startswith(tuple(dialect.prefixes))]
    assert strays == []


def test_every_credential_of_a_call_is_counted_before_it_is_judged() -> None:
    """`by_token` and `by_client` judge without counting: only the gate itself may use them."""
    uses = [
        path.name
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.parent.name != "auth" and re.search(r"\bby_(token|client)\(", path.read_text())
    ]
    assert uses == []
