"""Every error of the tree has an answer in every dialect, and overload tells when to come back."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import courier.core.errors
import courier.web.errors  # its errors belong to the same tree
from courier.config import Settings
from courier.core.errors import CourierError, TooManyRequests, Unavailable
from courier.web.call import ANONYMOUS, Call
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
    return importlib.import_module(f"courier.dialects.{name}").dialect(Settings())


def example_of(error: type[CourierError]) -> CourierError:
    """An error of the class, made from what its signature asks for."""
    needed = [
        ARGUMENTS[parameter.annotation]
        for parameter in inspect.signature(error).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    return error(*needed)


def a_call_to(dialect: Any) -> Call:
    params = dict.fromkeys(("tenant", "queue", "account_id", "org", "organization", "environment"), "default")
    return Call(
        method="GET", path=dialect.prefixes[0], raw_query=b"", raw_headers=[], body=b"", params=params,
        services=None, principal=ANONYMOUS,
    )  # type: ignore[arg-type]  # fmt: skip


LEAVES = sorted(
    {leaf for leaf in leaves(CourierError) if leaf.__module__.startswith("courier.")}, key=lambda e: e.__name__
)


def test_the_tree_in_the_docstring_names_every_error_of_the_core() -> None:
    missing = [
        leaf.__name__
        for leaf in LEAVES
        if leaf.__module__ == "courier.core.errors" and leaf.__name__ not in (courier.core.errors.__doc__ or "")
    ]
    assert missing == []


def test_there_is_a_dialect_to_ask() -> None:
    assert "native" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_error_has_an_answer_in_every_dialect(name: str) -> None:
    dialect = dialect_named(name)
    assert [leaf.__name__ for leaf in LEAVES if dialect.answer_for(leaf) is None] == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.__name__)
def test_an_error_is_answered_as_a_failure_of_caller_or_server(name: str, leaf: type[CourierError]) -> None:
    dialect = dialect_named(name)
    reply = dialect.failure(example_of(leaf), a_call_to(dialect))
    assert 400 <= reply.status <= 599
    assert reply.status != 500  # that is for bugs


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("leaf", [TooManyRequests, Unavailable])
def test_overload_tells_when_to_come_back(name: str, leaf: type[CourierError]) -> None:
    dialect = dialect_named(name)
    error = TooManyRequests(1_500) if leaf is TooManyRequests else Unavailable("the disk is full", retry_after_ms=1_500)
    reply = dialect.failure(error, a_call_to(dialect))
    assert reply.status in {429, 503}
    assert (b"retry-after", b"2") in [(key.lower(), value) for key, value in reply.headers]


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
