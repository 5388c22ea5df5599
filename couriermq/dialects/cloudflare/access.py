"""Whose account it is, which queue is meant, and whether the caller may: asked before anything is read or said."""

from couriermq.auth.principal import Principal
from couriermq.core import limits
from couriermq.core.errors import Forbidden, TenantNotFound
from couriermq.core.model import Action, Queue
from couriermq.dialects.cloudflare.errors import Code, Refused
from couriermq.web.call import Call


def authenticate(call: Call) -> Principal:
    """A bearer token, or the legacy key, whose e-mail address is not looked at."""
    if call.header(b"authorization") is None:
        key = call.header(b"x-auth-key") or call.header(b"x-auth-user-service-key")
        if key is not None:
            return call.services.auth.by_token(key.strip())
    return call.services.auth.bearer(call)


def tenant_of(call: Call) -> str:
    """The tenant that the account stands for; a stranger cannot tell another's account from one that is not there."""
    account, principal = call.params["account_id"], call.principal
    try:
        tenant = call.services.catalog.tenant_of_alias("cloudflare", account).id
    except TenantNotFound:
        if principal.is_root:
            raise
        tenant = None
    if tenant is None or principal.tenant not in {None, tenant}:
        raise Forbidden("use", f"account {account[:80]!r}")
    return tenant


def queue_of(call: Call, action: Action | None) -> Queue:
    """The queue by its id, else by its name; without an action, any right on it lets the caller see it."""
    tenant = tenant_of(call)
    queue = call.services.catalog.queue_of_id(call.params["queue_id"])
    if queue is None or queue.tenant != tenant or queue.owner is not None:
        queue = _queue_of_name(call, tenant)
    if action is not None:
        call.principal.require(action, queue)
    elif not sees(call.principal, queue):
        raise Forbidden("see", f"{queue.name!r}")
    return queue


def _queue_of_name(call: Call, tenant: str) -> Queue:
    name = call.params["queue_id"]
    if not limits.NAME.fullmatch(name):
        raise Refused(Code.QUEUE_ID_MALFORMED, f"{name[:80]!r} is neither the id nor the name of a queue")
    return call.services.catalog.queue(tenant, name)


def sees(principal: Principal, queue: Queue) -> bool:
    """Whoever may do anything with a queue may know that it exists: programs look ids up by name before they send."""
    return any(principal.may(action, queue) for action in Action)
