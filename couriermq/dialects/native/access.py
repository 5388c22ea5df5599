"""Finding what a call names, and only for those who may know that it exists.

The tenant is judged before anything is looked up: another tenant's queue, a queue that is not there and a tenant
that is not there are one and the same answer to a stranger. Inside a tenant, a name that the caller has no right to
is forbidden whether or not a queue bears it.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from couriermq.auth.principal import Principal
from couriermq.core.errors import ExchangeNotFound, Forbidden, Invalid, NotFound, QueueNotFound
from couriermq.core.model import Action, Exchange, Queue, Scope, Tenant
from couriermq.web.call import Call

T = TypeVar("T", Queue, Exchange)

READ = (Action.MANAGE, Action.BROWSE, Action.STATS)
"""Any of these lets a caller see a queue or an exchange and its settings."""
VERBS = {Action.STATS: "read the stats of", Action.RECEIVE: "receive from", Action.SEND: "send to"}


def tenant_for(call: Call) -> Tenant:
    """The call's tenant, for its own credentials and root."""
    tenant = call.params["tenant"]
    call.principal.require_tenant(tenant)
    return call.services.catalog.tenant(tenant)


def whole_tenant(call: Call, action: Action) -> Tenant:
    """The call's tenant, for those who may act on all of it."""
    tenant = call.params["tenant"]
    call.principal.require_all(action, tenant)
    return call.services.catalog.tenant(tenant)


def part_of_tenant(call: Call, *actions: Action) -> Tenant:
    """The call's tenant, for those who may do one of the actions on some of it; what they see of it is `visible`."""
    tenant, principal = tenant_for(call), call.principal
    if not principal.is_root and not any(scope.action in actions for scope in principal.scopes):
        raise _forbidden(actions, f"anything of tenant {tenant.id!r}")
    return tenant


def queue_for(call: Call, *actions: Action) -> Queue:
    """The call's queue, for those who may do one of the actions on it."""
    principal, tenant, asked = call.principal, call.params["tenant"], call.params["queue"]
    principal.require_tenant(tenant)
    try:
        queue = call.services.catalog.queue(tenant, asked)
    except QueueNotFound as error:
        raise _absent(call, actions, tenant, asked, error) from None
    if principal.tenant is not None:
        _require_any(principal, actions, queue, asked)
    return queue


def exchange_for(call: Call, *actions: Action) -> Exchange:
    """The call's exchange, for those who may do one of the actions on it."""
    principal, tenant, asked = call.principal, call.params["tenant"], call.params["exchange"]
    principal.require_tenant(tenant)
    try:
        exchange = call.services.catalog.exchange(tenant, asked)
    except ExchangeNotFound as error:
        raise _absent(call, actions, tenant, asked, error) from None
    if principal.tenant is not None:
        _require_any(principal, actions, exchange, asked)
    return exchange


def named_queue(call: Call, tenant: str, asked: str, *actions: Action, field: str) -> Queue:
    """A queue that the body names in `field`, for those who may do one of the actions on it."""
    try:
        queue = call.services.catalog.queue(tenant, asked)
    except QueueNotFound as error:
        absent = _absent(call, actions, tenant, asked, error)
        raise absent if isinstance(absent, Forbidden) else Invalid(str(error), field=field) from None
    if not call.principal.is_root:
        _require_any(call.principal, actions, queue, asked)
    return queue


def names_of_queues(call: Call) -> Callable[[str], str | None]:
    """From a queue's id to its name, for as long as it exists."""
    find = call.services.catalog.queue_of_id

    def name_of(queue_id: str) -> str | None:
        queue = find(queue_id)
        return queue.name if queue else None

    return name_of


def visible(principal: Principal, things: Sequence[T], *actions: Action) -> list[T]:
    """Those of the things on which the caller may do one of the actions."""
    return [thing for thing in things if any(principal.may(action, thing) for action in actions)]


def require_grants(principal: Principal, scopes: Sequence[Scope]) -> None:
    """Nobody hands out more than he has."""
    if principal.is_root:
        return
    for scope in scopes:
        for queue in scope.queues:
            if not _covers(principal, (scope.action,), queue):
                raise Forbidden("grant", f"{scope.action} on {queue!r}, which it does not have itself")


def _require_any(principal: Principal, actions: Sequence[Action], target: Queue | Exchange, asked: str) -> None:
    for action in actions:
        if principal.may(action, target):
            return
    raise _forbidden(actions, f"{asked!r}")


def _absent(call: Call, actions: Sequence[Action], tenant: str, asked: str, error: NotFound) -> Exception:
    """What to say of a name that nothing bears: the truth, to those who may act on that name."""
    if not call.principal.is_root:
        return error if _covers(call.principal, actions, asked) else _forbidden(actions, f"{asked!r}")
    call.services.catalog.tenant(tenant)  # root is told when it is the tenant that is missing
    return error


def _covers(principal: Principal, actions: Sequence[Action], asked: str) -> bool:
    return any(s.action in actions and ("*" in s.queues or asked in s.queues) for s in principal.scopes)


def _forbidden(actions: Sequence[Action], target: str) -> Forbidden:
    return Forbidden("see" if actions == READ else " or ".join(VERBS.get(a, a) for a in actions), target)
