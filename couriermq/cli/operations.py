"""`courier operations …`."""

import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.exits import Exit, Failure, usage
from couriermq.cli.options import Flag, QueueName, Yes
from couriermq.cli.quantities import show_count, show_instant
from couriermq.cli.screen import Column

app = App(
    name="operations",
    help="Do something with all messages of a queue that match, in the background.",
    help_epilogue="",
)

Json = dict[str, Any]
VERBS = ("redrive", "move", "remove", "resend", "replay")
LOOK_MS = 500
OperationId = Annotated[str, Parameter(help="The operation's id.", metavar="OPERATION")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Which messages an operation concerns."""

    attribute: list[str] | None = None
    """Only messages with this attribute, as name:value; may be given again."""

    contains: str | None = None
    """Only messages with this text in the body, the id or an attribute."""

    reason: str | None = None
    """Only messages that died for this reason."""

    source_queue: str | None = None
    """Only messages that died in this queue."""

    from_: Annotated[int | None, Parameter(name="--from", metavar="MS")] = None
    """Only messages that came into the queue, or were sent, at this instant or later, in epoch milliseconds."""

    to: Annotated[int | None, Parameter(metavar="MS")] = None
    """Only those before this instant."""

    def where(self) -> Json:
        return {name.rstrip("_"): value for name, value in asdict(self).items() if value is not None}


EVERY_MESSAGE = Conditions()


@app.command
def start(
    verb: Annotated[str, Parameter(help="One of redrive, move, remove, resend and replay.", metavar="VERB")],
    queue: QueueName,
    /,
    *,
    target: str | None = None,
    conditions: Conditions = EVERY_MESSAGE,
    per_second: float | None = None,
    preview: Flag = False,
    wait: Flag = False,
    yes: Yes = False,
    remote: Remote = REMOTE,
) -> None:
    """Begin an operation on all messages that match; without a condition, on all there are.

    redrive sends dead letters back to where they died, or to a target; resend sends copies; replay sends again what
    was sent to the queue within a time, from journal and archive.

    Parameters
    ----------
    target
        Where messages go.
    per_second
        No more messages than this in a second.
    preview
        Only count the messages that match.
    wait
        Wait until it has ended; the exit code is 1 unless all of it was done.
    """
    if verb not in VERBS:
        raise usage(f"{verb!r} is not an operation; choose from {', '.join(VERBS)}")
    order = {"verb": verb, "queue": queue, "where": conditions.where(), "target": target, "per_second": per_second}
    found = remote.client.post(remote.path("operations"), {**order, "preview": True})
    count = show_count(found["matched_count"], "message") + ("" if found["complete"] else " or more")
    if preview:
        remote.screen.tell(found, f"{count} of {found['looked_count']:,} that were looked at")
        return
    remote.screen.confirm(f"{verb} {count} of {queue}?", yes=yes)
    operation = remote.client.post(remote.path("operations"), order)
    if wait:
        operation = _awaited(remote, operation)
    remote.screen.tell(operation, f"{operation['id']}  {_words(operation)}")
    if (trouble := _trouble(operation)) is not None:
        raise Failure(trouble, Exit.FAILED)


def _trouble(operation: Json) -> str | None:
    """Why an operation that has ended did not do all of it."""
    error, left = operation["error"], operation["failed_count"]
    if operation["state"] == "failed":
        return error or "the operation has failed"
    if operation["state"] == "cancelled":
        return "the operation was cancelled" + (f": {error}" if error else "")
    if operation["state"] == "done" and left:
        return f"it was not done for {show_count(left, 'message')}"
    return None


def _awaited(remote: Remote, operation: Json) -> Json:
    with remote.screen.busy(f"{operation['verb']} {operation['queue']}"):
        while operation["state"] == "running":
            time.sleep(LOOK_MS / 1_000)
            operation = remote.client.get(remote.path("operations", operation["id"]))
    return operation


@app.command(name="list")
def list_(*, remote: Remote = REMOTE) -> None:
    """List the operations that run, and the last ones that ended."""
    operations = remote.client.get(remote.path("operations"))["operations"]
    if remote.json:
        remote.screen.document(operations)
    elif operations:
        columns = [Column("ID"), Column("VERB"), Column("QUEUE", fold=True), Column("STARTED"), Column("PROGRESS")]
        rows = [
            [one["id"], one["verb"], one["queue"] or one["queue_id"], show_instant(one["started_at"]), _words(one)]
            for one in operations
        ]
        remote.screen.table(columns, rows)
    else:
        remote.screen.note("there was no operation")


@app.command
def show(operation: OperationId, /, *, remote: Remote = REMOTE) -> None:
    """Show how far an operation has come."""
    found = remote.client.get(remote.path("operations", operation))
    remote.screen.tell(found, _words(found))


@app.command
def cancel(operation: OperationId, /, *, remote: Remote = REMOTE) -> None:
    """Stop an operation; what is done stays done."""
    found = remote.client.delete(remote.path("operations", operation))
    remote.screen.tell(found, _words(found))


def _words(operation: Json) -> str:
    words = f"{operation['state']}, {show_count(operation['done_count'], 'message')}"
    if operation["failed_count"]:
        words += f", {operation['failed_count']:,} failed"
    if operation["state"] == "running":
        total = operation["total_count"]
        words += f", {operation['looked_count']:,}{f' of {total:,}' if total is not None else ''} looked at"
    if operation["error"]:
        words += f": {operation['error']}"
    return words
