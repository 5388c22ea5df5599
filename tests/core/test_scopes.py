"""What scopes allow, and what their holder may grant."""

import pytest

from couriermq.core.model import Action, Scope
from couriermq.core.scopes import (
    allows,
    allows_somewhere,
    may_grant,
    may_grant_dialects,
    may_grant_rate,
    may_grant_until,
)

HELD = (Scope(Action.SEND), Scope(Action.BROWSE, ("orders", "bills")))


def test_a_scope_allows_its_action_on_its_queues() -> None:
    assert allows(HELD, (Action.SEND,), ("anything",))
    assert allows(HELD, (Action.RECEIVE, Action.BROWSE), ("id", "orders"))
    assert not allows(HELD, (Action.BROWSE,), ("id", "letters"))
    assert not allows(HELD, (Action.BROWSE,), ())
    assert not allows((), tuple(Action), ("orders",))


def test_a_scope_for_no_queue_allows_nothing_anywhere() -> None:
    assert allows_somewhere(HELD, (Action.BROWSE,))
    assert not allows_somewhere(HELD, (Action.MANAGE,))
    assert not allows_somewhere((Scope(Action.MANAGE, ()),), (Action.MANAGE,))


@pytest.mark.parametrize(
    ("wanted", "may"),
    [
        ((), True),
        ((Scope(Action.SEND),), True),
        ((Scope(Action.SEND, ("orders",)),), True),
        ((Scope(Action.BROWSE, ("bills", "orders")),), True),
        ((Scope(Action.BROWSE, ("orders", "letters")),), False),
        ((Scope(Action.BROWSE),), False),
        ((Scope(Action.SEND), Scope(Action.MANAGE, ("orders",))), False),
        ((Scope(Action.MANAGE, ()),), True),
    ],
)
def test_nobody_grants_more_than_they_have(wanted: tuple[Scope, ...], may: bool) -> None:
    assert may_grant(HELD, wanted) is may


def test_who_is_limited_in_a_dialect_grants_no_more_of_it() -> None:
    held = {"anypoint": ("a", "b")}
    assert may_grant_dialects({}, {})
    assert may_grant_dialects({}, held)
    assert may_grant_dialects(held, {"anypoint": ("b",)})
    assert not may_grant_dialects(held, {})
    assert not may_grant_dialects(held, {"anypoint": ("b", "c")})
    assert not may_grant_dialects(held, {"anypoint": ("b",), "discue": ()})


def test_who_ends_grants_nothing_that_ends_later() -> None:
    assert may_grant_until(None, None)
    assert may_grant_until(10, 10)
    assert not may_grant_until(10, 11)
    assert not may_grant_until(10, None)


def test_who_may_call_only_so_often_grants_no_more() -> None:
    assert may_grant_rate(None, None)
    assert may_grant_rate(10, 10)
    assert not may_grant_rate(10, 10.5)
    assert not may_grant_rate(10, None)
