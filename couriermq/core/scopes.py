"""The rules of credentials: when one ends, what a set of scopes allows, and what its holder may grant to others."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from couriermq.core.model import Action, Credential, Scope

EVERY_QUEUE = "*"

DialectScopes = Mapping[str, Sequence[str]]
"""By the name of a dialect: which of that dialect's own scopes a credential has there."""


def end_of(credential: Credential, *, now: int) -> str | None:
    """Why nobody gets in with a credential any more; None while it is good."""
    if not credential.enabled:
        return "is disabled"
    return "has expired" if credential.expires_at is not None and credential.expires_at <= now else None


def allows(scopes: Iterable[Scope], actions: Collection[Action], names: Sequence[str]) -> bool:
    """Whether the scopes allow one of the actions on a queue or exchange that has one of these names or ids."""
    for scope in scopes:
        if scope.action in actions:
            queues = scope.queues
            if EVERY_QUEUE in queues or any(name in queues for name in names):
                return True
    return False


def allows_somewhere(scopes: Iterable[Scope], actions: Collection[Action]) -> bool:
    """Whether the scopes allow one of the actions on any queue or exchange."""
    return any(scope.action in actions and scope.queues for scope in scopes)


def may_grant(held: Sequence[Scope], scopes: Iterable[Scope]) -> bool:
    """Whether a holder of `held` may grant `scopes`: nobody grants more than they have.

    A scope that names a queue by its id does not cover its name, nor the other way round: a name can pass to another
    queue later.
    """
    return first_excess(held, scopes) is None


def first_excess(held: Sequence[Scope], scopes: Iterable[Scope]) -> tuple[Action, str] | None:
    """The first action and queue among `scopes` that `held` does not cover."""
    for scope in scopes:
        for queue in scope.queues:
            if not allows(held, (scope.action,), (queue,)):
                return scope.action, queue
    return None


def may_grant_dialects(held: DialectScopes, scopes: DialectScopes) -> bool:
    """The same for the scopes of dialects: who is limited to some can only grant fewer of them."""
    if not held:
        return True
    return bool(scopes) and all(
        dialect in held and set(listed) <= set(held[dialect]) for dialect, listed in scopes.items()
    )


def may_grant_rate(held: float | None, requests_per_second: float | None) -> bool:
    """Who may call only so often cannot grant more calls."""
    return held is None or (requests_per_second is not None and requests_per_second <= held)


def may_grant_until(held: int | None, expires_at: int | None) -> bool:
    """Who ends at an instant cannot grant anything beyond it."""
    return held is None or (expires_at is not None and expires_at <= held)
