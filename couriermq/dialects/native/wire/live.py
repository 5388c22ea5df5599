"""A live stream on the wire: server-sent events."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.core.errors import Invalid
from couriermq.dialects.native.wire.overview import OverviewQuery, OverviewTotals, QueueRow

TOPICS = ("overview", "rates", "events", "attention")
POSITION_CHARS = 8_000


class LiveQuery(OverviewQuery, rename={"queues": "queue", "kinds": "kind", "start": "from"}):
    """What to tell of; the fields of the overview say of which queues."""

    topics: Annotated[str, Meta(max_length=100)] = "overview"
    kinds: tuple[str, ...] = ()
    principal: str | None = None
    message: str | None = None
    start: Annotated[str, Meta(max_length=POSITION_CHARS)] | UnsetType = UNSET
    max_per_second: Annotated[int, Meta(ge=1, le=200)] = 200
    bodies: bool = False

    @property
    def chosen(self) -> frozenset[str]:
        topics = frozenset(self.topics.split(","))
        if not topics <= frozenset(TOPICS):
            raise Invalid(f"topics are of {', '.join(TOPICS)}, with commas between them", field="topics")
        return topics


class Tick(msgspec.Struct, kw_only=True):
    """One second of one queue."""

    at: int
    sent: int
    received: int
    acked: int
    released: int
    expired: int
    dead: int
    backlog: int


class LiveRates(msgspec.Struct):
    """What has changed since the last of these; rows that are as they were are left out."""

    at: int
    totals: OverviewTotals | UnsetType = UNSET
    queues: list[QueueRow] | UnsetType = UNSET
    series: dict[str, Tick] | UnsetType = UNSET


class Skipped(msgspec.Struct, kw_only=True):
    """Events that were too many to tell; `count` is null where nobody has counted them."""

    count: int | None
    start: str = msgspec.field(name="from")
    stop: str = msgspec.field(name="to")


class Gone(msgspec.Struct):
    """Why the stream ends."""

    reason: str


_encode = msgspec.json.Encoder().encode


def frame(event: str, data: object, position: str | None = None) -> bytes:
    """One server-sent event; JSON has no line breaks of its own."""
    name = b"" if position is None else b"id: %b\n" % position.encode()
    content = bytes(data) if isinstance(data, msgspec.Raw) else _encode(data)
    return b"%bevent: %b\ndata: %b\n\n" % (name, event.encode(), content)


HEARTBEAT = b":\n\n"
RETRY = b"retry: 1000\n\n"
