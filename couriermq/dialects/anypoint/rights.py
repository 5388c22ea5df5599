"""Who may do what: Anypoint's scopes over ours.

A credential's own scopes decide. Where its `dialect_scopes` list Anypoint scopes, one of those that the operation asks
for must be among them too: that is how a connected app may clear queues but not change them.
"""

from collections.abc import Callable
from typing import TypeVar

from couriermq.core.errors import Forbidden, Invalid, NotFound
from couriermq.core.model import Action, Exchange, Queue
from couriermq.dialects.anypoint import place
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

D = TypeVar("D", bound=Queue | Exchange)


def queue(call: Call, *scopes: str) -> Queue:
    """The queue of the path, for those who have one of the scopes on it."""
    return named(call, call.params["queue"], call.services.catalog.queue, *scopes)


def exchange(call: Call, *scopes: str) -> Exchange:
    """The exchange of the path, for those who have one of the scopes on it."""
    return named(call, call.params["exchange"], call.services.catalog.exchange, *scopes)


def destination(call: Call, *scopes: str) -> Queue | Exchange:
    """The queue or exchange of the path, for those who have one of the scopes on it."""
    return named(call, call.params["destination"], call.services.catalog.destination, *scopes)


def source(call: Call, *scopes: str) -> Queue:
    """The destination of a call that only a queue can answer, for those who have one of the scopes on it."""
    found = destination(call, *scopes)
    if isinstance(found, Exchange):
        raise Invalid("The destination should be a queue.")
    return found


def named(call: Call, asked: str, find: Callable[[str, str], D], *scopes: str) -> D:
    """What the caller asks for; who has none of the scopes on it does not learn whether it exists."""
    tenant = place.tenant(call)
    try:
        found = find(tenant, asked)
    except NotFound:
        require(call, asked, None, *scopes)
        raise
    require(call, asked, found, *scopes)
    return found


def require(call: Call, asked: str, found: Queue | Exchange | None, *scopes: str) -> None:
    """One of the scopes, for the destination that is asked for; the same answer whether or not it exists."""
    actions = [ACTIONS[scope] for scope in _granted(call, scopes)]
    if not call.principal.may_on(asked, found, *actions):
        raise Forbidden(ACTIONS[scopes[0]], f"{asked[:200]!r}; that needs the scope {' or '.join(scopes)}")


def may(call: Call, target: Queue | Exchange, *scopes: str) -> bool:
    return call.principal.may_on(target.name, target, *(ACTIONS[scope] for scope in _granted(call, scopes)))


def require_all(call: Call, tenant: str, *scopes: str) -> None:
    """One of the scopes, for the whole environment."""
    call.principal.require_tenant(tenant)
    if not call.principal.may_all(*(ACTIONS[scope] for scope in _granted(call, scopes))):
        raise Forbidden(ACTIONS[scopes[0]], f"this environment; that needs the scope {' or '.join(scopes)}")


def require_any(call: Call, *scopes: str) -> None:
    """One of the scopes, for whichever destinations: what a list then shows is filtered by `may`."""
    if not call.principal.may_somewhere([ACTIONS[scope] for scope in _granted(call, scopes)]):
        raise Forbidden(ACTIONS[scopes[0]], f"this environment; that needs the scope {' or '.join(scopes)}")


def _granted(call: Call, scopes: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the scopes that the credential's own list of Anypoint scopes, if it has one, does not rule out."""
    listed = call.principal.dialect_scopes.get(place.NAME)
    return scopes if listed is None else tuple(scope for scope in scopes if scope in listed)
