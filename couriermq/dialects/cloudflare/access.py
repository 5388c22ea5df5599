"""Whose account it is, which queue is meant, and whether the caller may: asked before anything is read or said."""

from couriermq.auth.principal import Principal
from couriermq.catalog import Catalog
from couriermq.core import limits
from couriermq.core.errors import Forbidden, QueueNotFound, TenantNotFound
from couriermq.core.model import USES, Action, Queue
from couriermq.dialects.cloudflare import ids
from couriermq.dialects.cloudflare.errors import Code, Refused
from couriermq.web.call import Call


def authenticate(call: Call) -> Principal:
    """A bearer token, or the legacy key, whose e-mail address is not looked at."""
    key = call.header(b"x-auth-key") or call.header(b"x-auth-user-service-key")
    if call.header(b"authorization") is None and key is not None:
        principal = call.services.auth.admit_token(call, key.strip())
    else:
        principal = call.services.auth.bearer(call)
    principal.require_dialect("cloudflare")
    return principal


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


def is_legacy(call: Call) -> bool:
    """Whether the call came by the first form of the API."""
    return call.path.startswith(f"/client/v4/accounts/{call.params['account_id']}/workers/")


def queue_of(call: Call, *actions: Action | None) -> Queue:
    """The queue by its id or its name, for a caller that may do one of the actions; None stands for any of them."""
    tenant, asked = tenant_of(call), call.params["queue_id"]
    if not limits.NAME.fullmatch(asked):
        raise Refused(Code.QUEUE_ID_MALFORMED, f"{asked[:80]!r} is neither the id nor the name of a queue")
    return named_queue(call, tenant, asked, *actions)


def named_queue(call: Call, tenant: str, asked: str, *actions: Action | None) -> Queue:
    """What the caller calls a queue; who has no right on it does not learn whether it exists."""
    named = [action for action in actions if action is not None]
    wanted, verb = (named, None) if named else (USES, "see")
    try:
        queue = _found(call.services.catalog, tenant, asked)
    except QueueNotFound:
        call.principal.require_on(asked, None, *wanted, verb=verb)
        raise
    call.principal.require_on(asked, queue, *wanted, verb=verb)
    return queue


def _found(catalog: Catalog, tenant: str, asked: str) -> Queue:
    """By its alias, else by its id or name as every dialect knows it."""
    return catalog.queue_of_alias(tenant, ids.DIALECT, asked) or catalog.queue(tenant, asked)


def sees(principal: Principal, queue: Queue) -> bool:
    """Whoever may do anything with a queue may know that it exists: programs look ids up by name before they send."""
    return principal.may_on(queue.name, queue, *USES)
