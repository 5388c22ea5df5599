"""The whole life of one message: every queue it was in, every attempt, every delivery."""

from couriermq.core.errors import Invalid, MessageNotFound, OffsetGone, QueueNotFound, TenantNotFound
from couriermq.core.events import Entry, target_of
from couriermq.core.lanes import lane_of
from couriermq.core.limits import Room
from couriermq.core.model import Action, Message, Tenant
from couriermq.dialects.native.access import journal_view, named_queue, names_of_queues, part_of_tenant
from couriermq.dialects.native.operations import TENANT, Operation, encode, ok
from couriermq.dialects.native.wire import messages
from couriermq.dialects.native.wire import timelines as wire
from couriermq.dialects.native.wire.events import write_event
from couriermq.dialects.native.wire.reading import read_query
from couriermq.journal.lookup import Found, Sought, look_up
from couriermq.journal.selection import Selection
from couriermq.journal.tenant_view import show_entries
from couriermq.web.call import Call, Reply

BODY_BYTES = 64 * 1024
SEPARATOR = ","
"""Between positions in lanes of the journal."""
TRIES = 3


async def read_timeline(call: Call) -> Reply:
    tenant = part_of_tenant(call, Action.STATS)
    query = read_query(call, wire.TimelineQuery)
    message_id = call.params["message"]
    live = await _live(call, tenant, query, message_id)
    known = call.numbers.true_seq(query.seq) if query.seq is not None else live.seq if live else None
    sought = Sought(message_id=message_id, seq=known or call.services.sealer.seq_of(message_id), bodies=query.bodies)
    befores = await _befores(call, query)
    found = [await _look_up(call, lane, sought, before) for lane, before in befores.items()]
    entries = _seen(call, tenant, query, [entry for one in found for entry in one.entries])
    room, written = Room(), [write_event(entry) for entry in show_entries(entries, call.numbers)]
    events = [event for event in written if room.takes(len(encode(event)))]
    is_whole = all(one.is_whole for one in found)
    return ok(
        wire.Timeline(
            message_id=message_id,
            seq=_seq_of(call, live, entries),
            message=None if live is None else _write(call, live),
            lanes=_lanes(call, entries),
            events=events,
            looked=_looked(call, found),
            next=None if is_whole else SEPARATOR.join(str(call.numbers.position(one.start)) for one in found),
            complete=is_whole,
        )
    )


async def _befores(call: Call, query: wire.TimelineQuery) -> dict[int, int | None]:
    """Before which offset to look, for each lane of the journal."""
    befores: dict[int, int | None] = dict.fromkeys(await call.services.history.spans())
    for position in (query.before or "").split(SEPARATOR) if query.before else ():
        offset = call.numbers.true_position(position, field="before")
        if lane_of(offset) not in befores:
            raise Invalid("before is a position in a lane that does not exist", field="before")
        befores[lane_of(offset)] = offset
    return befores


async def _look_up(call: Call, lane: int, sought: Sought, before: int | None) -> Found:
    for attempt in range(TRIES):
        try:
            return await look_up(call.services.history.past_of(lane), sought, lane=lane, before=before)
        except OffsetGone:  # some of it was sealed and trimmed meanwhile: it is in the archive then
            if attempt == TRIES - 1:
                raise
    raise AssertionError


async def _live(call: Call, tenant: Tenant, query: wire.TimelineQuery, message_id: str) -> Message | None:
    """The message as it is now, for those who may browse where it is."""
    if query.queue is None:
        return None
    queue = named_queue(call, tenant.id, query.queue, Action.STATS, Action.BROWSE, field="queue")
    if not call.principal.may(Action.BROWSE, queue):
        return None
    try:
        return await call.services.broker.read_message(queue, message_id)
    except (MessageNotFound, QueueNotFound):
        return None


def _write(call: Call, message: Message) -> messages.Message:
    [shown] = messages.write_previews([message], names_of_queues(call), call.numbers, preview_bytes=BODY_BYTES)
    return shown


def _seen(call: Call, tenant: Tenant, query: wire.TimelineQuery, entries: list[Entry]) -> list[Entry]:
    """What the caller may see of them, in the order in which it happened."""
    selection = Selection(tenant=tenant.id, view=journal_view(call), arrivals=True, bodies=query.bodies)
    return sorted(selection.choose(entries), key=lambda entry: (entry.event.at, entry.event.turn or 0, entry.offset))


def _seq_of(call: Call, live: Message | None, entries: list[Entry]) -> int | None:
    """The number that the message has in the first queue it was in."""
    seqs = [entry.event.seq for entry in entries if entry.event.seq is not None]
    seq = live.seq if live else seqs[0] if seqs else None
    return None if seq is None else call.numbers.seq(seq)


def _lanes(call: Call, entries: list[Entry]) -> list[wire.TimelineLane]:
    """Every queue that the message was in, in the order in which it came there."""
    names: dict[str, str | None] = {}
    dead: set[str] = set()
    for entry in entries:
        event, target = entry.event, target_of(entry.event)
        if event.queue_id is not None:
            names[event.queue_id] = event.queue
        if target is not None:
            names.setdefault(*target)
            if event.kind == "dead_lettered":
                dead.add(target[0])
    return [_lane(call, queue_id, name, is_dead=queue_id in dead) for queue_id, name in names.items()]


def _lane(call: Call, queue_id: str, name: str | None, *, is_dead: bool) -> wire.TimelineLane:
    catalog = call.services.catalog
    queue = catalog.queue_of_id(queue_id)
    if queue is not None and queue.owner is not None:
        listener = next((one for one in catalog.listeners(queue.tenant) if one.id == queue.owner), None)
        role: wire.Role = "listener_dead_letters" if listener and listener.dead_letters_id == queue_id else "outbox"
        return wire.TimelineLane(queue_id, name, role, listener.name if listener else None)
    return wire.TimelineLane(queue_id, queue.name if queue else name, "dead_letters" if is_dead else "queue", None)


def _looked(call: Call, found: list[Found]) -> wire.Looked:
    instants = [one.from_at for one in found if one.from_at is not None]
    count = sum(one.stop - one.start for one in found) if call.numbers.is_plain else None
    return wire.Looked(min(instants, default=None), call.services.clock.now(), count)


OPERATIONS = (
    Operation(
        method="GET",
        path=TENANT + "/messages/{message}/timeline",
        handler=read_timeline,
        tag="Messages",
        summary="Read the whole life of one message",
        description="All events of a message, from the journal and the archive, in every queue it was in: also in dead"
        " letter queues, and at listeners for those who may read the stats of all queues. `queue` and `seq` are not"
        " needed; `seq` makes the look shorter, and with `queue` a caller who may browse it also gets the message as it"
        " is now. One call looks at the newest part of the past, some million events: where `complete` is false, go on"
        " with `before`. Bodies need `browse` and `bodies=true`. `courier trace` prints the same.",
        needs="stats",
        query=wire.TimelineQuery,
        gives={200: wire.Timeline},
        fails=(TenantNotFound, OffsetGone),
    ),
)
