"""Who may do what: Discue's scopes over ours.

A key that was made here has Discue's scopes, which are finer than ours, as grants, and what they amount to in our
words as its own scopes: so it may do no more through another dialect. Once somebody has changed its scopes in our
words, those alone count. So they do for every other credential.
"""

from collections.abc import Iterable, Sequence

import msgspec

from couriermq.catalog import Catalog
from couriermq.core.errors import Forbidden
from couriermq.core.model import USES, Action, Credential, Scope
from couriermq.dialects.discue.key_facts import EVERYTHING, Access, Grant, Grants, grants_of
from couriermq.web.call import Call


class Right(msgspec.Struct, frozen=True):
    """What a handler asks for: access to a kind of resource, or, without grants, one of these actions."""

    resource: str
    access: Access
    actions: tuple[Action, ...]


SEE = (Action.MANAGE, Action.BROWSE)
"""Not for readers of figures: the URL of a listener may hold secrets of its receiver."""

READ_QUEUES = Right("queues", "read", USES)
"""Whoever may do anything with a queue may know that it exists: programs look ids up by name before they send."""
CHANGE_QUEUES = Right("queues", "write", (Action.MANAGE,))
READ_SCHEMAS = Right("schemas", "read", USES)
READ_LISTENERS = Right("listeners", "read", SEE)
CHANGE_LISTENERS = Right("listeners", "write", (Action.MANAGE,))
READ_MESSAGES = Right("messages", "read", (Action.BROWSE,))
ADD_MESSAGES = Right("messages", "write", (Action.SEND,))
CHANGE_MESSAGES = Right("messages", "write", (Action.MANAGE,))
READ_DOMAINS = Right("domains", "read", SEE)
CHANGE_DOMAINS = Right("domains", "write", (Action.MANAGE,))
READ_EVENTS = Right("events", "read", (Action.STATS,))
READ_STATS = Right("stats", "read", (Action.STATS,))
MANAGE_KEYS = Right("api_keys", "write", (Action.MANAGE,))
MANAGE_CLIENT = Right("api_clients", "write", (Action.MANAGE,))

PROTECTED = frozenset({"api_clients", "api_keys", "subscriptions"})
"""Resources that no scope can be given for."""
UNSERVED = frozenset({"channels", "topics"})
"""Resources of which only the names are known: a scope is kept and allows nothing."""
RESOURCES: dict[str, dict[Access, tuple[Right, ...]]] = {
    "queues": {"read": (READ_QUEUES,), "write": (CHANGE_QUEUES,)},
    "listeners": {"read": (READ_LISTENERS,), "write": (CHANGE_LISTENERS,)},
    "messages": {"read": (READ_MESSAGES,), "write": (ADD_MESSAGES, CHANGE_MESSAGES)},
    "schemas": {"read": (READ_SCHEMAS,), "write": (CHANGE_QUEUES,)},
    "events": {"read": (READ_EVENTS,), "write": ()},
    "stats": {"read": (READ_STATS,), "write": ()},
    "domains": {"read": (READ_DOMAINS,), "write": (CHANGE_DOMAINS,)},
}
"""What each scope is worth: needed to hand it out, and shown of a credential that was made in our words."""
EVERY_SCOPE = tuple(Scope(action) for action in USES)
TENANT_WIDE = frozenset({"events", "stats", "domains"})
"""What no queue has for itself."""


def allows(call: Call, right: Right, *names: str) -> bool:
    """Whether the caller has the right on what bears one of the names; without a name, on everything."""
    principal = call.principal
    if principal.is_root:
        return True
    grants = _grants(call)
    if grants is None:
        return any(scope.action in right.actions and _covers(scope.queues, names) for scope in principal.scopes)
    grant = grants.get(right.resource)
    return grant is not None and _suffices(grant, right) and _covers(grant.targets, names)


def require(call: Call, right: Right, *names: str, asked: str | None = None) -> None:
    """The right on what bears one of the names; a refusal repeats only what the caller asked for."""
    if not allows(call, right, *names):
        label = asked or (names[0] if names else "all")
        raise Forbidden(right.access, f"{label[:200]!r} of {right.resource}")


def require_some(call: Call, right: Right) -> None:
    """The right on something, at least: what a list then shows is filtered by `allows`."""
    grants = None if call.principal.is_root else _grants(call)
    if grants is not None:
        grant = grants.get(right.resource)
        if grant is not None and _suffices(grant, right):
            return
    elif call.principal.is_root or any(scope.action in right.actions for scope in call.principal.scopes):
        return
    raise Forbidden(right.access, right.resource)


def _suffices(grant: Grant, right: Right) -> bool:
    return grant.access == "write" or right.access == "read"


def _covers(targets: Sequence[str], names: Iterable[str]) -> bool:
    return "*" in targets or any(name in targets for name in names)


# -- keys -----------------------------------------------------------------------------------------------------


def _grants(call: Call) -> Grants | None:
    catalog = call.services.catalog
    credential = catalog.credential_of_id(call.principal.id)
    return None if credential is None else grants_of(catalog, credential)


def require_grants(call: Call, grants: Grants | None, *, scopes: Sequence[Scope] = EVERY_SCOPE) -> None:
    """The rule that nobody grants more than they have, for grants; a key without any has its scopes."""
    if call.principal.is_root:
        return
    if grants is None:
        call.principal.require_grant(
            scopes,
            expires_at=call.principal.expires_at,
            requests_per_second=call.principal.requests_per_second,
        )
        return
    for resource, grant in grants.items():
        for right in _rights(resource, grant):
            if "*" in grant.targets:
                require(call, right)
            for target in grant.targets:
                require(call, right, target)


def _rights(resource: str, grant: Grant) -> list[Right]:
    worth = RESOURCES.get(resource, {})
    return [*worth.get("read", ()), *(worth.get("write", ()) if grant.access == "write" else ())]


def in_our_words(grants: Grants | None) -> tuple[Scope, ...]:
    """Scopes that allow through other dialects what the grants allow here, and nothing more."""
    if grants is None:
        return tuple(Scope(action) for action in USES)
    scopes = []
    if messages := grants.get("messages"):
        scopes.append(Scope(Action.BROWSE, messages.targets))
        if messages.access == "write":
            scopes.append(Scope(Action.SEND, messages.targets))
    managed = [grants.get(resource) for resource in ("queues", "listeners", "messages")]
    both = _common([grant.targets if grant and grant.access == "write" else () for grant in managed])
    if both and both != EVERYTHING:  # on all queues it would include the credentials of the tenant
        scopes.append(Scope(Action.MANAGE, both))  # managing a queue elsewhere is all of this at once
    if all(resource in grants and "*" in grants[resource].targets for resource in ("stats", "events")):
        scopes.append(Scope(Action.STATS))  # elsewhere, who reads figures also reads what happened
    return tuple(scopes)


def needs_of(grants: Grants | None) -> tuple[Scope, ...]:
    """Scopes for what the grants allow here and `in_our_words` leaves out: figures without events, or the reverse.

    Who gives a key away through another dialect manages all queues, and so has whatever else a grant allows.
    """
    figures = [grant for name in ("stats", "events") if (grant := (grants or {}).get(name)) is not None]
    return (Scope(Action.STATS),) if any("*" in grant.targets for grant in figures) else ()


def _common(target_lists: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The targets that are in every list; `*` stands for all."""
    some = [set(targets) for targets in target_lists if "*" not in targets]
    return tuple(sorted(set.intersection(*some))) if some else EVERYTHING


def in_their_words(catalog: Catalog, credential: Credential) -> Grants:
    """The scopes of a credential as this dialect shows them."""
    if (grants := grants_of(catalog, credential)) is not None:
        return grants
    found = {resource: _best_grant(credential.scopes, worth) for resource, worth in RESOURCES.items()}
    return {
        resource: grant
        for resource, grant in found.items()
        if grant is not None and (resource not in TENANT_WIDE or grant.targets == EVERYTHING)
    }


def _best_grant(scopes: Sequence[Scope], worth: dict[Access, tuple[Right, ...]]) -> Grant | None:
    for access, rights in reversed(worth.items()):
        if rights and (targets := _common([_targets(scopes, right) for right in rights])):
            return Grant(access, targets)
    return None


def _targets(scopes: Sequence[Scope], right: Right) -> tuple[str, ...]:
    named = {queue for scope in scopes if scope.action in right.actions for queue in scope.queues}
    return EVERYTHING if "*" in named else tuple(sorted(named))
