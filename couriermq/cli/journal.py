"""`courier journal`."""

from typing import Annotated

from cyclopts import Parameter

from couriermq.cli.connection import SERVER, Server
from couriermq.cli.exits import usage
from couriermq.cli.following import Json, Wanted, event_line, pages, place
from couriermq.cli.options import Flag, check_count
from couriermq.core.events import EventKind

WAIT_MS = 30_000


def journal(
    *,
    from_: Annotated[str | None, Parameter(name="--from", metavar="OFFSET")] = None,
    last: Annotated[int | None, Parameter(metavar="N")] = None,
    limit: Annotated[int | None, Parameter(alias="-n")] = None,
    follow: Annotated[Flag, Parameter(alias="-f")] = False,
    tenant: str | None = None,
    queue: str | None = None,
    kind: list[str] | None = None,
    server: Server = SERVER,
) -> None:
    """Print the events of the journal in the order of time, one a line.

    Parameters
    ----------
    from_
        Start at the event of this offset or, with a tenant's credential, of this position. [default: the oldest that is
        kept]
    last
        Start N events before the end; with a tenant's credential, N of the tenant's.
    limit
        Stop after this many events.
    follow
        Go on with new events as they happen, until interrupted.
    tenant
        Only events of this tenant. [default: all that the credential may see]
    queue
        Only events of this queue, by name or id.
    kind
        Only events of this kind, such as sent or acked; may be given again.
    """
    if from_ is not None and last is not None:
        raise usage("--from and --last contradict each other")
    check_count("--from", int(from_) if from_ is not None and from_.lstrip("-").isdecimal() else None)
    check_count("--last", last)
    check_count("--limit", limit, least=1)
    wait_ms = WAIT_MS if follow else 0
    wanted = Wanted(tenant=tenant, queue=queue, kinds=_read_kinds(kind), bodies=server.json, wait_ms=wait_ms)
    start = from_ if last is None else place(server.client, last=last)
    left = limit
    for page in pages(server.client, wanted, start=start):
        shown = page if left is None else page[:left]
        _show(server, shown)
        if left is not None:
            left -= len(shown)
        if left == 0 or not (page or follow):
            return


def _read_kinds(kinds: list[str] | None) -> frozenset[str] | None:
    for kind in kinds or ():
        if kind not in set(EventKind):
            raise usage(f"{kind!r} is not a kind of event; choose from {', '.join(EventKind)}")
    return frozenset(kinds) if kinds else None


def _show(server: Server, events: list[Json]) -> None:
    for event in events:
        if server.json:
            server.screen.record(event)
        else:
            server.screen.line(f"{event['offset']:>8}  {event_line(event, with_date=True)}")
