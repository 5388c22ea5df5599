"""`courier queues …`."""

import json
import time
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from couriermq.cli.client import Refused
from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.exits import usage
from couriermq.cli.options import Flag, QueueName, Yes, read_pairs
from couriermq.cli.quantities import show_age, show_count, show_instant, show_size
from couriermq.cli.screen import Cell, Column, Styled
from couriermq.cli.settings import NOTHING, SETTINGS, Wishes, setting_facts

app = App(name="queues", help="Create, look at, change, empty and delete queues.", help_epilogue="")

LONG_S = 3_600
PURGE_LOOK_S = 1.0
"""How often to ask whether a purge has ended."""
Json = dict[str, Any]
Aliases = Annotated[
    list[str] | None,
    Parameter(
        name="--alias",
        metavar="DIALECT=ID",
        help="Another id by which a dialect finds the queue, such as cloudflare=023e1…; may be given again.",
    ),
]


@app.command(name="list")
def list_(*, prefix: str | None = None, limit: int | None = None, remote: Remote = REMOTE) -> None:
    """List the tenant's queues with what is in them.

    Parameters
    ----------
    prefix
        Only queues whose names start with this.
    limit
        At most so many.
    """
    found = remote.every(remote.path("queues"), "queues", {"prefix": prefix}, limit=limit)
    if remote.json:
        remote.screen.document(found)
        return
    if not found:
        remote.screen.note("no queues yet; make one with `courier queues create NAME`")
        return
    counters = _all_counters(remote)
    columns = [Column("NAME", fold=True), Column("KIND"), *_COUNTER_COLUMNS, Column("DEAD LETTERS TO", fold=True)]
    remote.screen.table(columns, [_queue_row(queue, counters.get(queue["name"])) for queue in found])


def _all_counters(remote: Remote) -> dict[str, Json]:
    """Every queue's counters; a credential that may not see them still gets its list."""
    try:
        counters: dict[str, Json] = remote.client.get(remote.path("counters"))["queues"]
    except Refused as refused:
        if refused.status != 403:
            raise
        return {}
    return counters


_COUNTER_COLUMNS = [
    Column("READY", right=True),
    Column("DELAYED", right=True),
    Column("LEASED", right=True),
    Column("SIZE", right=True),
    Column("OLDEST", right=True),
]


def _counter_cells(counters: Json | None) -> list[Cell]:
    if counters is None:
        return [""] * len(_COUNTER_COLUMNS)
    oldest = counters["oldest_age_ms"]
    return [
        f"{counters['ready_count']:,}",
        f"{counters['delayed_count']:,}",
        f"{counters['leased_count']:,}",
        show_size(counters["byte_count"]),
        "" if oldest is None else show_age(oldest),
    ]


def _queue_row(queue: Json, counters: Json | None) -> list[Cell]:
    settings = queue["settings"]
    kind = Styled("paused", "yellow") if settings["paused"] else queue["kind"]
    return [queue["name"], kind, *_counter_cells(counters), settings["dead_letter_queue"] or ""]


@app.command
def create(
    queue: Annotated[str, Parameter(help="The new queue's name.")],
    /,
    *,
    kind: Literal["standard", "fifo"] = "standard",
    paused: Flag = False,
    alias: Aliases = None,
    settings: Wishes = NOTHING,
    remote: Remote = REMOTE,
) -> None:
    """Create a queue.

    Parameters
    ----------
    kind
        fifo keeps the order inside each group and drops duplicates.
    paused
        Take messages, but give none yet.
    """
    wishes = settings.document() | ({"paused": True} if paused else {})
    order: Json = {"name": queue, "kind": kind, "settings": wishes}
    if alias:
        order["aliases"] = read_pairs(alias, "an alias")
    document = remote.client.post(remote.path("queues"), order)
    remote.screen.tell(document, f"created queue {queue}")


@app.command
def show(queue: QueueName, /, *, remote: Remote = REMOTE) -> None:
    """Show a queue's settings and what is in it."""
    document = remote.client.get(remote.queue(queue))
    if remote.json:
        remote.screen.document(document)
        return
    remote.screen.sheet(f"queue {document['name']}", [*_facts(document), *_contents(remote, queue)])


def _facts(queue: Json) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [(name, queue[name]) for name in ("id", "tenant", "kind")]
    facts.extend(setting_facts(queue["settings"]))
    facts.extend((name, show_instant(queue[f"{name}_at"])) for name in ("created", "changed"))
    facts.extend((f"{dialect} alias", alias) for dialect, alias in queue["aliases"].items())
    facts.extend((name, json.dumps(value)) for name, value in queue["annotations"].items())
    return facts


def _contents(remote: Remote, queue: str) -> list[tuple[str, Cell]]:
    try:
        counters = remote.client.get(remote.queue(queue, "counters"))
    except Refused as refused:
        if refused.status != 403:
            raise
        return []
    return [("messages", _content_words(counters))]


def _content_words(counters: Json) -> str:
    words = (
        f"{counters['ready_count']:,} ready, {counters['delayed_count']:,} delayed, "
        f"{counters['leased_count']:,} leased ({show_size(counters['byte_count'])})"
    )
    oldest = counters["oldest_age_ms"]
    return words if oldest is None else f"{words}, the oldest {show_age(oldest)} old"


@app.command
def change(
    queue: QueueName,
    /,
    *,
    name: str | None = None,
    alias: Aliases = None,
    no_aliases: Flag = False,
    no_dead_letter_queue: Annotated[Flag, Parameter(group=SETTINGS)] = False,
    settings: Wishes = NOTHING,
    remote: Remote = REMOTE,
) -> None:
    """Change a queue's name, aliases or settings; what is not named stays.

    Parameters
    ----------
    name
        A new name.
    no_aliases
        Leave the queue without any aliases.
    no_dead_letter_queue
        Discard dead messages from now on.
    """
    wishes = settings.document()
    if no_dead_letter_queue:
        if settings.dead_letter_queue is not None:
            raise usage("--dead-letter-queue and --no-dead-letter-queue contradict each other")
        wishes["dead_letter_queue"] = None
    if alias and no_aliases:
        raise usage("--alias and --no-aliases contradict each other")
    changes: Json = ({"name": name} if name else {}) | ({"settings": wishes} if wishes else {})
    if alias or no_aliases:
        changes["aliases"] = read_pairs(alias, "an alias")
    if not changes:
        raise usage("say what to change, such as --lease 1m; see `courier queues change --help`")
    document = remote.client.patch(remote.queue(queue), changes)
    remote.screen.tell(document, f"changed queue {document['name']}")


@app.command
def pause(queue: QueueName, /, *, remote: Remote = REMOTE) -> None:
    """Stop giving messages out; the queue still takes them."""
    _set_paused(remote, queue, paused=True)


@app.command
def resume(queue: QueueName, /, *, remote: Remote = REMOTE) -> None:
    """Give messages out again."""
    _set_paused(remote, queue, paused=False)


def _set_paused(remote: Remote, queue: str, *, paused: bool) -> None:
    document = remote.client.patch(remote.queue(queue), {"settings": {"paused": paused}})
    remote.screen.tell(document, f"{'paused' if paused else 'resumed'} queue {document['name']}")


@app.command
def delete(queue: QueueName, /, *, yes: Yes = False, remote: Remote = REMOTE) -> None:
    """Delete a queue with everything in it."""
    remote.screen.confirm(f"delete queue {queue} and every message in it?", yes=yes)
    remote.client.delete(remote.queue(queue))
    remote.screen.tell({"deleted": queue}, f"deleted queue {queue}")


Seqs = Annotated[
    list[int] | None,
    Parameter(name="--seq", metavar="SEQ", help="Only the message with this seq; may be given again."),
]


@app.command
def purge(queue: QueueName, /, *, seqs: Seqs = None, yes: Yes = False, remote: Remote = REMOTE) -> None:
    """Remove every message that is in a queue now."""
    if seqs:
        removed = remote.client.post(remote.queue(queue, "remove"), {"seqs": seqs})
        _report(remote, {"count": len(removed["seqs"])}, "removed")
        return
    remote.screen.confirm(f"remove every message from queue {queue}?", yes=yes)
    with remote.screen.busy(f"purge {queue}"):
        purge: Json = remote.client.post(remote.queue(queue, "purge"), {}, wait_s=LONG_S)
        while purge["ended_at"] is None:
            time.sleep(PURGE_LOOK_S)
            purge = remote.client.get(remote.queue(queue, "purge"))
    _report(remote, purge, "removed")


@app.command
def redrive(queue: QueueName, /, *, to: str | None = None, seqs: Seqs = None, remote: Remote = REMOTE) -> None:
    """Send dead letters back to the queues where they died, with fresh attempts.

    Parameters
    ----------
    to
        Send them to this queue instead.
    """
    _report(remote, _at_length(remote, queue, "redrive", _given(target=to, seqs=seqs)), "redrove")


@app.command
def move(
    queue: QueueName,
    target: Annotated[str, Parameter(help="The queue that gets them.")],
    /,
    *,
    seqs: Seqs = None,
    remote: Remote = REMOTE,
) -> None:
    """Move messages that nobody holds to another queue."""
    _report(remote, _at_length(remote, queue, "move", _given(target=target, seqs=seqs)), "moved")


def _at_length(remote: Remote, queue: str, verb: str, order: Json) -> Json:
    """Ask for something that takes as long as the queue is."""
    with remote.screen.busy(f"{verb} {queue}"):
        answer: Json = remote.client.post(remote.queue(queue, verb), order, wait_s=LONG_S)
    return answer


def _given(**parts: Any) -> Json:
    return {name: value for name, value in parts.items() if value}


def _report(remote: Remote, document: Json, verb: str) -> None:
    remote.screen.tell(document, f"{verb} {show_count(document['count'], 'message')}")


@app.command
def counters(
    queue: Annotated[str | None, Parameter(help="One queue; without it, all of them.")] = None,
    /,
    *,
    remote: Remote = REMOTE,
) -> None:
    """Show how many messages there are, exactly, by state."""
    if queue is None:
        found: dict[str, Json] = remote.client.get(remote.path("counters"))["queues"]
        document: Json = found
    else:
        document = remote.client.get(remote.queue(queue, "counters"))
        found = {queue: document}
    if remote.json:
        remote.screen.document(document)
        return
    columns = [Column("NAME", fold=True), *_COUNTER_COLUMNS]
    remote.screen.table(columns, [[name, *_counter_cells(figures)] for name, figures in sorted(found.items())])
