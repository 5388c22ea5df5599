"""Cursors of the journal: how far its readers have come, so that nothing is forgotten before they have read it."""

import msgspec

from couriermq.core.errors import CursorNotFound, Forbidden, Invalid, OffsetGone
from couriermq.core.lanes import lane_of
from couriermq.dialects.native import limits
from couriermq.dialects.native.operations import PREFIX, Operation, gone, ok
from couriermq.dialects.native.wire import events as wire
from couriermq.dialects.native.wire.reading import read
from couriermq.journal.cursors import Cursor
from couriermq.web.call import Call, Reply


async def list_cursors(call: Call) -> Reply:
    _require_root(call)
    return ok(wire.CursorList([_write_cursor(cursor) for cursor in call.services.cursors.all()]))


async def advance_cursor(call: Call) -> Reply:
    _require_root(call)
    order = read(_ORDER, call.body)
    call.services.history.refuse_lost(order.offset)
    span = await call.services.history.span(lane_of(order.offset))
    if order.offset > span.next:
        raise Invalid(f"offset is {order.offset}, but the journal ends at {span.next}", field="offset")
    return ok(_write_cursor(await call.services.cursors.advance(_name_of(call), order.offset)))


async def delete_cursor(call: Call) -> Reply:
    _require_root(call)
    await call.services.cursors.delete(call.params["cursor"])
    return gone()


def _name_of(call: Call) -> str:
    name = call.params["cursor"]
    if not 1 <= len(name) <= limits.NAME_CHARS:
        raise Invalid(f"a cursor's name has 1 to {limits.NAME_CHARS} characters", field="cursor")
    return name


def _require_root(call: Call) -> None:
    if not call.principal.is_root:
        raise Forbidden("use", "cursors; that needs the root credential")


def _write_cursor(cursor: Cursor) -> wire.Cursor:
    return wire.Cursor(cursor.name, cursor.offset, cursor.changed_at)


_ORDER = msgspec.json.Decoder(wire.CursorOrder)

CURSOR = PREFIX + "/journal/cursors/{cursor}"

OPERATIONS = (
    Operation(
        method="GET",
        path=PREFIX + "/journal/cursors",
        handler=list_cursors,
        tag="Journal",
        summary="List the cursors",
        needs="root",
        gives={200: wire.CursorList},
    ),
    Operation(
        method="PUT",
        path=CURSOR,
        handler=advance_cursor,
        tag="Journal",
        summary="Make a cursor, or move it forward",
        description="Events from the lowest cursor on are kept, whatever their age. A cursor never moves back: the"
        " answer says where it stands.",
        needs="root",
        takes=wire.CursorOrder,
        example={"offset": 1000},
        gives={200: wire.Cursor},
        fails=(OffsetGone,),
    ),
    Operation(
        method="DELETE",
        path=CURSOR,
        handler=delete_cursor,
        tag="Journal",
        summary="Forget a cursor, and let go of what it held",
        needs="root",
        gives={204: None},
        fails=(CursorNotFound,),
    ),
)
