"""Audit events of a tenant: sign-ins, denied calls, secrets that were read, and changes of the control plane."""

from msgspec import UNSET

from couriermq.core.errors import Invalid, OffsetGone, TenantNotFound
from couriermq.core.events import AUDIT_KINDS, CHANGE_KINDS
from couriermq.core.model import Action
from couriermq.dialects.native import merged
from couriermq.dialects.native.access import whole_tenant
from couriermq.dialects.native.operations import TENANT, Operation, ok
from couriermq.dialects.native.wire import events as wire
from couriermq.dialects.native.wire.reading import read_query
from couriermq.journal.selection import Selection
from couriermq.web.call import Call, Reply

KINDS = AUDIT_KINDS | CHANGE_KINDS


async def read_audit_events(call: Call) -> Reply:
    tenant = whole_tenant(call, Action.AUDIT)
    query = read_query(call, wire.AuditQuery)
    strange = sorted(set(query.kinds) - KINDS)
    if strange:
        raise Invalid(f"{strange[0]!r} is not the kind of an audit event", field="kind")
    selection = Selection(tenant=tenant.id, kinds=frozenset(query.kinds) or KINDS, audit=True)
    start = None if query.start is UNSET else query.start
    return ok(await merged.page(call, selection, start=start, limit=query.limit))


OPERATIONS = (
    Operation(
        method="GET",
        path=TENANT + "/audit",
        handler=read_audit_events,
        tag="Journal",
        summary="Read audit events in order",
        description="`signed_in`, `denied` and `secret_read`, and every change of the control plane, with the principal"
        " and, in `detail`, the address. Sign-ins and denied calls are counted and written once a minute. One call"
        " looks through at most 100,000 offsets: go on from `next` until `at_end` is true.",
        needs="audit, on all queues",
        query=wire.AuditQuery,
        gives={200: wire.Events},
        fails=(TenantNotFound, OffsetGone),
    ),
)
