"""Events and stats of the last day."""

from itertools import islice

from couriermq.core.errors import Invalid
from couriermq.core.model import DAY, HOUR, Json, Listener
from couriermq.dialects.discue import history, limits, rights
from couriermq.dialects.discue.access import names_of, tenant_of
from couriermq.dialects.discue.history import Happening, Remembrance
from couriermq.dialects.discue.wire.answers import answer, path_of
from couriermq.dialects.discue.wire.reading import whole
from couriermq.lake.border import HEADER, describe
from couriermq.web.call import Call, Reply

ALL = "all"
PAD = "e"
ID_CHARS = 21


class Usage:
    """The handlers, which share what the journal has told."""

    def __init__(self, remembrance: Remembrance) -> None:
        self._remembrance = remembrance

    async def get_stats(self, call: Call) -> Reply:
        rights.require(call, rights.READ_STATS)
        known = self._remembrance.history(call)
        past = await known.of(tenant_of(call))
        now = call.services.clock.now()
        since = {"last_24_hours": now - DAY, "last_1_hours": now - HOUR, "today_so_far": now - now % DAY}
        counts = {span: past.counts(start) for span, start in since.items()}
        headers = [(HEADER, describe(known.border).encode())]
        return answer(call, {"aggregated_api_usage_events": counts}, path_of("stats", "messages"), headers=headers)

    async def list_events(self, call: Call) -> Reply:
        """Oldest first; the last one's `stored_at` and `id` lead to those that follow it."""
        rights.require(call, rights.READ_EVENTS)
        noun = _noun(call.argument("events"))
        limit = whole("limit", call.argument("limit"), 1, limits.EVENT_COUNT_MOST, default=limits.EVENT_COUNT)
        after = _after(call)
        known = self._remembrance.history(call)
        past = await known.of(tenant_of(call))
        following = (one for one in past.happenings(noun) if after is None or one.place > after)
        listeners = {one.id: one for one in call.services.catalog.listeners(tenant_of(call))}
        written = [_write(call, one, listeners.get(one.listener_id or "")) for one in islice(following, limit)]
        headers = [(HEADER, describe(known.border).encode())]
        return answer(call, {"events": written}, path_of("events"), headers=headers)


def _noun(asked: str | None) -> str | None:
    if asked is None or asked in {"", ALL}:
        return None
    if asked not in history.GROUPS:
        raise Invalid(f"events is {asked[:40]!r}; choose one of {ALL}, {', '.join(history.GROUPS)}", field="events")
    return history.GROUPS[asked]


def _after(call: Call) -> tuple[int, int] | None:
    """The place among the events to go on from; only both parameters together have an effect."""
    at, event_id = call.argument("startAfter"), call.argument("startAfterId")
    if not at or not event_id:
        return None
    instant = whole("startAfter", at, 0, 10**15, default=0)
    number = event_id.lstrip(PAD)
    known = number.isascii() and number.isdecimal() and len(number) <= 19
    offset = call.numbers.true_offset(int(number)) if known else None
    if offset is None:
        raise Invalid("startAfterId is not the id of an event", field="startAfterId")
    return instant, offset


def _event_id(call: Call, offset: int) -> str:
    """An id like every other, from which the server reads the place in the journal."""
    return str(call.numbers.offset(offset)).rjust(ID_CHARS, PAD)


def _write(call: Call, one: Happening, listener: Listener | None) -> dict[str, Json]:
    """A message's name is one of its attributes, so it is for those who may read the message."""
    written: dict[str, Json] = {
        "id": _event_id(call, one.offset),
        "type": one.type,
        "stored_at": one.at,
        "client": {"id": tenant_of(call)},
        "principal": {"id": one.principal},
    }
    queue_id = listener.queue_id if listener else one.queue_id
    queue = call.services.catalog.queue_of_id(queue_id) if queue_id else None
    noun = history.NOUNS[one.type]
    named = noun != "message" or rights.allows(call, rights.READ_MESSAGES, *(names_of(queue) if queue else ()))
    subject_id = call.numbers.message_id(one.subject_id, one.seq) or ""
    written[noun] = _ref(subject_id, one.subject_name if named and one.subject_name != one.subject_id else subject_id)
    if listener is not None:
        written["listener"] = _ref(listener.id, listener.name)
    if queue is not None:
        written.setdefault("queue", _ref(queue.id, queue.name))
    return written


def _ref(thing_id: str, name: str) -> dict[str, Json]:
    return {"id": thing_id, "name": name, "alias": name}
