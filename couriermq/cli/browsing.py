"""`courier browse` and `courier cancel`: messages without leases."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.messages import preview, show_message, show_state
from couriermq.cli.options import Flag, QueueName, read_attribute
from couriermq.cli.quantities import show_age, show_size
from couriermq.cli.screen import Cell, Column
from couriermq.clock import SystemClock

PAGE = 1_000
Json = dict[str, Any]

_COLUMNS = [
    Column("SEQ", right=True),
    Column("ID", cut=True),
    Column("STATE"),
    Column("TRIES", right=True),
    Column("AGE", right=True),
    Column("SIZE", right=True),
    Column("BODY", cut=True),
]


def browse(
    queue: QueueName,
    /,
    *,
    state: list[Literal["ready", "delayed", "leased"]] | None = None,
    id: Annotated[str | None, Parameter(name="--id")] = None,  # noqa: A002 - the word of the product
    attribute: Annotated[str | None, Parameter(alias="-a", metavar="NAME=VALUE")] = None,
    limit: Annotated[int, Parameter(alias="-n")] = 20,
    full: Flag = False,
    remote: Remote = REMOTE,
) -> None:
    """Look at a queue's messages, oldest first, without leasing them.

    Parameters
    ----------
    state
        Only messages in this state; may be given again.
    id
        Only messages with this id.
    attribute
        Only messages with this attribute.
    limit
        How many at most.
    full
        Show whole messages, not a line each.
    """
    query: Json = {"state": state, "id": id, "attribute": None if attribute is None else _criterion(attribute)}
    messages, more = _pages(remote, queue, query, limit)
    if remote.json:
        remote.screen.document(messages)
        return
    _show(remote, messages, full=full)
    if more:
        remote.screen.note(f"there are more; see them with --limit {limit * 10}")
    elif not messages:
        remote.screen.note(f"no such messages in {queue}" if any(query.values()) else f"{queue} is empty")


def _criterion(pair: str) -> str:
    name, _ = read_attribute(pair)
    return f"{name}:{pair.partition('=')[2]}"


def _pages(remote: Remote, queue: str, query: Json, limit: int) -> tuple[list[Json], bool]:
    """Up to `limit` messages, and whether there are more; a filtered page may be short and not the last."""
    messages: list[Json] = []
    after: str | None = None
    while True:
        wanted = min(limit - len(messages), PAGE)
        page = remote.client.get(remote.queue(queue, "messages"), query | {"limit": wanted, "after": after})
        messages.extend(page["messages"])
        after = page["next"]
        if after is None or len(messages) >= limit:
            return messages, after is not None


def _show(remote: Remote, messages: list[Json], *, full: bool) -> None:
    now = SystemClock().now()
    if full:
        for message in messages:
            show_message(remote.screen, message, now=now)
    elif messages:
        remote.screen.table(_COLUMNS, [_row(message, now) for message in messages])


def _row(message: Json, now: int) -> list[Cell]:
    return [
        str(message["seq"]),
        message["id"],
        show_state(message["state"]),
        str(message["attempts"]),
        show_age(now - message["sent_at"]),
        show_size(message["size"]),
        preview(message),
    ]


def cancel(
    queue: QueueName, message_id: Annotated[str, Parameter(help="The message's id.")], /, *, remote: Remote = REMOTE
) -> None:
    """Take back a message that nobody has received yet, such as a delayed one."""
    remote.client.delete(remote.queue(queue, "messages", message_id))
    remote.screen.tell({"cancelled": message_id}, f"cancelled {message_id}")
