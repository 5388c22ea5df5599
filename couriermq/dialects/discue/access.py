"""Who calls, whose things are meant, and which of them: asked before anything is read or said."""

from couriermq.auth.principal import Principal
from couriermq.catalog import DEFAULT_TENANT, hash_secret
from couriermq.core.errors import (
    ListenerNotFound,
    QueueNotFound,
    Throttled,
    TooManyRequests,
    Unauthenticated,
)
from couriermq.core.model import Listener, Queue
from couriermq.dialects.discue import rights
from couriermq.dialects.discue.rights import Right
from couriermq.web.call import Call

REFUSED = Principal(id="anonymous", tenant="", scopes=())
"""A caller whose key was looked at and refused."""


def authenticate(call: Call) -> Principal:
    """The holder of the key in X-API-KEY; a call that fails remembers why, for the answer."""
    key = (call.header(b"x-api-key") or "").strip()
    call.principal = REFUSED
    if not key:
        raise Unauthenticated("the header X-API-KEY is required")
    try:
        principal = call.services.auth.admit_token(call, key)
    except Throttled:
        raise
    except TooManyRequests:
        credential = call.services.catalog.credential_of_secret(hash_secret(key))
        if credential is not None:
            call.principal = Principal(id=credential.id, tenant=credential.tenant)
        raise
    principal.require_dialect("discue")
    return principal


def tenant_of(call: Call) -> str:
    """The tenant that the key belongs to; root, who belongs to none, means the default one."""
    return call.principal.tenant or DEFAULT_TENANT


def queue_for(call: Call, right: Right) -> Queue:
    """The queue by its id or its name, for those who have the right on it."""
    asked = call.params["queue_id"]
    queue = _queue(call, asked)
    rights.require(call, right, *((asked,) if queue is None else names_of(queue)), asked=asked)
    if queue is None:
        raise QueueNotFound(asked)
    return queue


def known_queue(call: Call, right: Right) -> Queue:
    """The queue, whatever the caller may do with it; one that is not there is for those who have the right on it."""
    asked = call.params["queue_id"]
    queue = _queue(call, asked)
    if queue is None:
        rights.require(call, right, asked)
        raise QueueNotFound(asked)
    return queue


def _queue(call: Call, asked: str) -> Queue | None:
    try:
        return call.services.catalog.queue(tenant_of(call), asked)
    except QueueNotFound:
        return None


def listener_for(call: Call, right: Right) -> tuple[Queue, Listener]:
    """A listener of the call's queue; a scope may name the listener or its queue.

    Without the right, a queue and a listener that are not there are refused like those that are.
    """
    asked, asked_queue = call.params["listener_id"], call.params["queue_id"]
    queue = known_queue(call, right)
    try:
        listener = call.services.catalog.listener(queue, asked)
    except ListenerNotFound:
        rights.require(call, right, asked, *names_of(queue), asked=asked_queue)
        raise
    rights.require(call, right, listener.id, *names_of(queue), asked=asked_queue)
    return queue, listener


def names_of(queue: Queue) -> tuple[str, str]:
    """What a scope may call a queue."""
    return queue.id, queue.name


def queues_of(call: Call, right: Right) -> list[Queue]:
    """The tenant's queues on which the caller has the right."""
    return [q for q in call.services.catalog.queues(tenant_of(call)) if rights.allows(call, right, *names_of(q))]
