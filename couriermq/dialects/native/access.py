"""Finding what a call names, and only for those who may know that it exists.

The tenant is judged before anything is looked up: another tenant's queue, a queue that is not there and a tenant
that is not there are one and the same answer to a stranger. Inside a tenant, a name that the caller has no right to
is forbidden whether or not a queue bears it.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from couriermq.auth.principal import VERBS, Principal
from couriermq.core.errors import Forbidden, Invalid, NotFound, QueueNotFound
from couriermq.core.model import Action, Exchange, Queue, Tenant
from couriermq.core.scopes import allows
from couriermq.journal.view import Judge, View
from couriermq.web.call import Call

T = TypeVar("T", Queue, Exchange)

READ = (Action.MANAGE, Action.BROWSE, Action.STATS)
"""Any of these lets a caller see a queue or an exchange and its settings."""
READ_CONTENT = (Action.MANAGE, Action.BROWSE)
"""Either of these lets a caller see a queue's listeners: their URLs may hold secrets of the receiver."""


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
    tenant = tenant_for(call)
    if not call.principal.may_somewhere(actions):
        raise Forbidden(
            _verb(actions) or " or ".join(VERBS[action] for action in actions), f"anything of tenant {tenant.id!r}"
        )
    return tenant


def queue_for(call: Call, *actions: Action) -> Queue:
    """The call's queue, for those who may do one of the actions on it."""
    tenant, asked = call.params["tenant"], call.params["queue"]
    call.principal.require_tenant(tenant)
    return _permitted(call, tenant, asked, call.services.catalog.queue, actions)


def exchange_for(call: Call, *actions: Action) -> Exchange:
    """The call's exchange, for those who may do one of the actions on it."""
    tenant, asked = call.params["tenant"], call.params["exchange"]
    call.principal.require_tenant(tenant)
    return _permitted(call, tenant, asked, call.services.catalog.exchange, actions)


def named_queue(call: Call, tenant: str, asked: str, *actions: Action, field: str) -> Queue:
    """A queue that the body names in `field`, for those who may do one of the actions on it."""
    try:
        return _permitted(call, tenant, asked, call.services.catalog.queue, actions)
    except QueueNotFound as error:
        raise Invalid(str(error), field=field) from None


def _permitted(call: Call, tenant: str, asked: str, find: Callable[[str, str], T], actions: tuple[Action, ...]) -> T:
    try:
        found = find(tenant, asked)
    except NotFound:
        call.principal.require_on(asked, None, *actions, verb=_verb(actions))
        call.services.catalog.tenant(tenant)  # root is told when it is the tenant that is missing
        raise
    call.principal.require_on(asked, found, *actions, verb=_verb(actions))
    return found


def _verb(actions: tuple[Action, ...]) -> str | None:
    return "see" if actions in (READ, READ_CONTENT) else None


def names_of_queues(call: Call) -> Callable[[str], str | None]:
    """From a queue's id to its name, for as long as it exists."""
    find = call.services.catalog.queue_of_id

    def name_of(queue_id: str) -> str | None:
        queue = find(queue_id)
        return queue.name if queue else None

    return name_of


def visible(principal: Principal, things: Sequence[T], *actions: Action) -> list[T]:
    """Those of the things on which the caller may do one of the actions."""
    return [thing for thing in things if principal.may_on(thing.name, thing, *actions)]


def journal_view(call: Call) -> View | None:
    """What the caller may see of its tenant's journal; None is everything."""
    principal = call.principal
    if all(principal.may_all(action) for action in READ):
        return None
    return View(
        sees=_judge(call, Action.STATS), reads=_judge(call, Action.BROWSE), credentials=principal.may_all(Action.MANAGE)
    )


def _judge(call: Call, action: Action) -> Judge:
    """A queue or exchange that exists is judged by what it is now, one that is gone by the name that it had."""
    principal, catalog = call.principal, call.services.catalog
    if principal.may_all(action):
        return lambda queue_id, name: True

    def may(queue_id: str | None, name: str | None) -> bool:
        if queue_id is None:
            return False  # it is about the tenant
        found = catalog.destination_of_id(queue_id)
        if found is not None:
            return principal.may(action, found)
        return allows(principal.scopes, (action,), (queue_id, name) if name else (queue_id,))

    return may
