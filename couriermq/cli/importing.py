"""`courier import`."""

import hashlib
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from couriermq.cli.client import Refused
from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.exits import Exit, Failure
from couriermq.cli.exported import Export, Note, new_message
from couriermq.cli.options import read_pairs
from couriermq.cli.progress import Progress
from couriermq.cli.publishing import publish, published
from couriermq.cli.quantities import show_count
from couriermq.clock import SystemClock

Json = dict[str, Any]


def import_(
    folder: Annotated[Path, Parameter(help="What `courier export` wrote.", metavar="DIR")],
    queues: Annotated[tuple[str, ...], Parameter(help="Only these queues.", metavar="QUEUE")] = (),
    /,
    *,
    rename: Annotated[list[str] | None, Parameter(metavar="OLD=NEW")] = None,
    remote: Remote = REMOTE,
) -> None:
    """Make the queues of an export where they are missing, and send its messages into them, each exactly once.

    An import that was interrupted goes on when it is started again, and one that is done sends nothing a second time.
    Messages keep their ids, attributes, groups, and what is left of their delay and retention; attempts begin anew.

    Parameters
    ----------
    rename
        Give a queue another name here; may be given again.
    """
    export = Export(folder)
    note = _note(export)
    names = read_pairs(rename, "a new name")
    chosen = _chosen(export, queues, {*names})
    made = _make(remote, chosen, names)
    targets = [names.get(str(queue["queue"]), str(queue["queue"])) for queue in chosen]
    total = sum(queue["message_count"] for queue in chosen)
    sent = 0
    with Progress("importing", unit="message", total=total, json=remote.json) as progress:
        for queue, target in zip(chosen, targets, strict=True):
            alone = targets.count(target) == 1
            sent += _send(remote, export, note, queue["queue"], target, progress, alone=alone)
    document = {"queues": len(chosen), "made": made, "messages": total, "sent": sent}
    before = f"; {show_count(total - sent, 'message')} had been sent before" if sent < total else ""
    words = (
        f"imported {show_count(len(chosen), 'queue')}, {made} of them new, and {show_count(sent, 'message')}{before}"
    )
    remote.screen.tell(document, words)


def _note(export: Export) -> Note:
    note = export.note()
    if note is None:
        raise Failure(f"{export.folder} holds no export", Exit.NOT_FOUND)
    if not export.is_complete:
        raise Failure(f"the export in {export.folder} is not complete; start `courier export` again to finish it")
    return note


def _chosen(export: Export, names: tuple[str, ...], renamed: set[str]) -> list[Json]:
    known = export.queues()
    missing = ({*names} | renamed) - {queue["queue"] for queue in known}
    if missing:
        raise Failure(f"the export has no queue named {min(missing)!r}", Exit.NOT_FOUND)
    return [queue for queue in known if not names or queue["queue"] in names]


def _make(remote: Remote, queues: list[Json], names: dict[str, str]) -> int:
    """Create queues, those that take others' dead letters first; returns how many were missing."""
    waiting = {queue["queue"]: queue for queue in queues}
    made = 0
    while waiting:
        ready = [queue for queue in waiting.values() if queue["settings"]["dead_letter_queue"] not in waiting]
        for queue in ready:
            made += _make_one(remote, queue, names)
            del waiting[queue["queue"]]
    return made


def _make_one(remote: Remote, queue: Json, names: dict[str, str]) -> bool:
    settings = dict(queue["settings"])
    if settings["dead_letter_queue"] is not None:
        settings["dead_letter_queue"] = names.get(settings["dead_letter_queue"], settings["dead_letter_queue"])
    name = names.get(str(queue["queue"]), str(queue["queue"]))
    document = {"name": name, "kind": queue["kind"], "settings": settings, "annotations": queue["annotations"]}
    if name == queue["queue"]:  # a copy under another name may stand next to the original, whose aliases lead there
        document["aliases"] = queue["aliases"]
    try:
        remote.client.post(remote.path("queues"), document)
    except Refused as refused:
        if refused.status == 409 and _exists(remote, name):
            return False
        raise
    return True


def _exists(remote: Remote, name: str) -> bool:
    try:
        remote.client.get(remote.queue(name))
    except Refused as refused:
        if refused.status == 404:
            return False
        raise
    return True


def _send(
    remote: Remote, export: Export, note: Note, source: str, target: str, progress: Progress, *, alone: bool
) -> int:
    """Publish the files of a queue that were not published yet, one after the other; returns how many messages."""
    series, now, sent = _series(note, source), SystemClock().now(), 0
    done = published(remote, target, series)
    if alone and not done:
        done = published(remote, target, f"import-{note.id}")  # an earlier version had one series for all queues
    for number, part in enumerate(export.parts(source), start=1):
        messages = [new_message(row, now=now) for row in export.messages(part)]
        if number > done:
            sent += publish(remote, target, series, number, messages)
        progress.advance(len(messages), queue=target)
    return sent


def _series(note: Note, source: str) -> str:
    """One for each queue of the export: several may go to the same target, and number their files alike."""
    return f"import-{note.id}-{hashlib.sha256(source.encode()).hexdigest()[:12]}"
