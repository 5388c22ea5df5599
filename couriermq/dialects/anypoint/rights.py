"""Who may do what: Anypoint's scopes over ours.

A credential's own scopes decide. Where its annotation `anypoint.scopes` lists Anypoint scopes, one of those that the
operation asks for must be among them too: that is how a connected app may clear queues but not change them.
"""

from couriermq.core.errors import Forbidden
from couriermq.core.model import Action, Exchange, Queue
from couriermq.web.call import Call

PUBLISH = "publish:destinations"
SUBSCRIBE = "subscribe:destinations"
ADMINISTER = "administer:destinations"
CLEAR = "clear:destinations"
VIEW = "view:destinations"
MANAGE_CLIENTS = "manage:clients"
VIEW_CLIENTS = "view:clients"
READ_STATS = "read:stats"

ACTIONS: dict[str, Action] = {
    PUBLISH: Action.SEND,
    SUBSCRIBE: Action.RECEIVE,
    ADMINISTER: Action.MANAGE,
    CLEAR: Action.MANAGE,
    VIEW: Action.BROWSE,
    MANAGE_CLIENTS: Action.MANAGE,
    VIEW_CLIENTS: Action.BROWSE,
    READ_STATS: Action.STATS,
}
LOOK = (VIEW, ADMINISTER)
LOOK_AT_STATS = (VIEW, ADMINISTER, READ_STATS)

ANNOTATION = "anypoint.scopes"


def require(call: Call, target: Queue | Exchange, *scopes: str) -> None:
    """One of the scopes, for this destination."""
    if not may(call, target, *scopes):
        raise Forbidden(ACTIONS[scopes[0]], f"{target.name!r}; that needs the scope {' or '.join(scopes)}")


def may(call: Call, target: Queue | Exchange, *scopes: str) -> bool:
    principal = call.principal
    if principal.is_root:
        return True
    return any(principal.may(ACTIONS[scope], target) for scope in _granted(call, scopes))


def require_all(call: Call, tenant: str, *scopes: str) -> None:
    """One of the scopes, for the whole environment."""
    if call.principal.is_root:
        return None
    for scope in _granted(call, scopes):
        try:
            return call.principal.require_all(ACTIONS[scope], tenant)
        except Forbidden:
            continue
    raise Forbidden(ACTIONS[scopes[0]], f"this environment; that needs the scope {' or '.join(scopes)}")


def require_any(call: Call, *scopes: str) -> None:
    """One of the scopes, for whichever destinations: what a list then shows is filtered by `may`."""
    if call.principal.is_root:
        return
    held = {scope.action for scope in call.principal.scopes}
    if not any(ACTIONS[scope] in held for scope in _granted(call, scopes)):
        raise Forbidden(ACTIONS[scopes[0]], f"this environment; that needs the scope {' or '.join(scopes)}")


def _granted(call: Call, scopes: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the scopes that the credential's annotation, if it has one, does not rule out."""
    credential = call.services.catalog.credential_of_id(call.principal.id)
    listed = credential.annotations.get(ANNOTATION) if credential and credential.annotations else None
    return scopes if listed is None else tuple(scope for scope in scopes if scope in listed)
