"""`courier export`."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.exits import Failure
from couriermq.cli.exported import Export, Note
from couriermq.cli.progress import Progress
from couriermq.cli.quantities import show_count
from couriermq.clock import SystemClock

Json = dict[str, Any]

PAGE = 1_000
PART_COUNT = 20_000
PART_BYTES = 32 * 1024 * 1024
"""A file is full with so many messages, or with so many bytes of bodies."""


def export(
    queues: Annotated[tuple[str, ...], Parameter(help="Names or ids of queues; none means all.", metavar="QUEUE")] = (),
    /,
    *,
    to: Annotated[Path, Parameter(metavar="DIR")],
    remote: Remote = REMOTE,
) -> None:
    """Write queues, their settings and their messages into a folder of Parquet; the messages stay where they are.

    An export that was interrupted goes on where it was when it is started again. Messages that come and go meanwhile
    may or may not be in it: pause a queue first where that matters.

    Parameters
    ----------
    to
        A new folder, or one with an unfinished export of the same queues.
    """
    wanted = [remote.client.get(remote.queue(queue)) for queue in queues] or remote.every(
        remote.path("queues"), "queues"
    )
    export = _open(to, remote, [queue["name"] for queue in wanted])
    totals = [remote.client.get(remote.queue(queue["id"], "counters"))["total_count"] for queue in wanted]
    with Progress("exporting", unit="message", total=sum(totals), json=remote.json) as progress:
        counts = [_copy(remote, export, queue, progress) for queue in wanted]
    export.finish(wanted, counts)
    document = {"export": str(to), "queues": len(wanted), "messages": sum(counts)}
    words = f"exported {show_count(len(wanted), 'queue')} with {show_count(sum(counts), 'message')} to {to}"
    remote.screen.tell(document, words)


def _open(folder: Path, remote: Remote, names: list[str]) -> Export:
    export = Export(folder)
    if export.is_complete:
        raise Failure(f"{folder} holds an export that is complete; name a new folder")
    begun = export.note()
    if begun is None:
        if folder.exists() and any(folder.iterdir()):
            raise Failure(f"{folder} is not empty; name a new folder")
        clock = SystemClock()
        begun = Note(id=clock.random_bytes(12).hex(), tenant=remote.tenant, queues=names, began_at=clock.now())
        export.begin(begun)
    if (begun.tenant, begun.queues) != (remote.tenant, names):
        raise Failure(
            f"{folder} holds the beginning of another export, of {', '.join(begun.queues)} of {begun.tenant};"
            " name a new folder"
        )
    return export


def _copy(remote: Remote, export: Export, queue: Json, progress: Progress) -> int:
    """Write what is not written yet of one queue; returns how many messages there are of it."""
    count, after, done = export.place_after(queue["name"])
    progress.advance(count, queue=queue["name"])
    while not done:
        messages, after = _fill(remote, queue["id"], after, progress)
        export.add_part(queue["name"], messages, after)
        count += len(messages)
        done = after is None
    return count


def _fill(remote: Remote, queue: str, after: str | None, progress: Progress) -> tuple[list[Json], str | None]:
    """The messages of one file, and where the next one begins."""
    messages: list[Json] = []
    size = 0
    while True:
        page = remote.client.get(remote.queue(queue, "messages"), {"limit": PAGE, "after": after})
        messages += page["messages"]
        size += sum(message["size"] for message in page["messages"])
        after = page["next"]
        progress.advance(len(page["messages"]))
        if after is None or len(messages) >= PART_COUNT or size >= PART_BYTES:
            return messages, after
