"""`courier trace`: the whole life of one message."""

from typing import Annotated, Any

from cyclopts import Parameter

from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.exits import Exit, Failure
from couriermq.cli.following import event_line
from couriermq.cli.quantities import show_instant

Json = dict[str, Any]


def trace(
    message: Annotated[str, Parameter(metavar="MESSAGE")],
    /,
    *,
    queue: str | None = None,
    seq: int | None = None,
    remote: Remote = REMOTE,
) -> None:
    """Print everything that happened to a message, in every queue it was in, the oldest first.

    Parameters
    ----------
    message
        The message's id.
    queue
        The queue that it is in, to see its state as well.
    seq
        Its number, where ids are not unique.
    """
    pages: list[Json] = []
    before: str | None = None
    while not pages or before is not None:
        query = {"queue": queue, "seq": seq, "before": before}
        pages.append(remote.client.get(remote.path("messages", message, "timeline"), query))
        before = pages[-1]["next"]
    events = [event for page in reversed(pages) for event in page["events"]]
    if remote.json:
        remote.screen.document({**pages[0], "events": events, "next": None, "complete": pages[-1]["complete"]})
    elif events:
        for event in events:
            remote.screen.line(event_line(event, with_date=True))
    else:
        since = pages[-1]["looked"]["from_at"]
        reach = f" since {show_instant(since)}" if since is not None else ""
        raise Failure(f"no event of message {message!r} can be found{reach}", Exit.NOT_FOUND)
