"""Audit events of a tenant: sign-ins, denied calls, secrets that were read, and changes of the control plane."""

from couriermq.core.errors import Invalid, OffsetGone, TenantNotFound
from couriermq.core.events import AUDIT_KINDS, CHANGE_KINDS, Entry
from couriermq.core.model import Action
from couriermq.core.shards import shard_of
from couriermq.dialects.native import limits
from couriermq.dialects.native.access import whole_tenant
from couriermq.dialects.native.operations import TENANT, Operation, ok
from couriermq.dialects.native.wire import events as wire
from couriermq.dialects.native.wire.reading import read_query
from couriermq.journal.selection import Selection
from couriermq.web.call import Call, Reply

KINDS = AUDIT_KINDS | CHANGE_KINDS
SCAN_COUNT = 100_000
"""How many offsets one call looks through."""


async def read_audit_events(call: Call) -> Reply:
    tenant = whole_tenant(call, Action.AUDIT)
    query = read_query(call, wire.AuditQuery)
    strange = sorted(set(query.kinds) - KINDS)
    if strange:
        raise Invalid(f"{strange[0]!r} is not the kind of an audit event", field="kind")
    selection = Selection(tenant=tenant.id, kinds=frozenset(query.kinds) or KINDS, audit=True)
    span = await call.services.history.span(shard_of(query.start or 0))
    start = span.oldest if query.start is None else query.start
    if start < span.oldest:
        raise OffsetGone(start, span.oldest)
    found, offset = await _scan(call, selection, start, min(span.next, start + SCAN_COUNT), query.limit)
    return ok(wire.Events([wire.write_event(entry) for entry in found], offset))


async def _scan(call: Call, selection: Selection, offset: int, stop: int, limit: int) -> tuple[list[Entry], int]:
    """Up to `limit` entries of the selection from `offset` on, and the offset to go on from."""
    found: list[Entry] = []
    while offset < stop:
        count = min(limits.BATCH_EVENT_COUNT, stop - offset)
        entries = await call.services.history.read_events(start=offset, limit=count)
        if not entries:
            break
        for entry in entries:
            offset = entry.offset + 1
            if selection.takes(entry.event):
                found.append(entry)
                if len(found) == limit:
                    return found, offset
    return found, offset


OPERATIONS = (
    Operation(
        method="GET",
        path=TENANT + "/audit",
        handler=read_audit_events,
        tag="Journal",
        summary="Read audit events in order",
        description="`signed_in`, `denied` and `secret_read`, and every change of the control plane, with the principal"
        " and, in `detail`, the address. Sign-ins and denied calls are counted and written once a minute. One call"
        " looks through at most 100,000 offsets: go on from `next` until it stays the same.",
        needs="audit, on all queues",
        query=wire.AuditQuery,
        gives={200: wire.Events},
        fails=(TenantNotFound, OffsetGone),
    ),
)
