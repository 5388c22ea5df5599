"""`courier listeners …`."""

from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.listener_settings import NOTHING, Wishes, setting_facts
from couriermq.cli.options import Duration, Flag, QueueName, SecretText, Yes
from couriermq.cli.quantities import show_age, show_count, show_instant
from couriermq.cli.screen import Cell, Column, Styled
from couriermq.clock import SystemClock

app = App(name="listeners", help="Have messages delivered to URLs, and see how that goes.", help_epilogue="")

Json = dict[str, Any]
ListenerName = Annotated[str, Parameter(help="The listener's name or id.", metavar="LISTENER")]
Listeners = Annotated[str | None, Parameter(help="The queue; without it every queue's.", metavar="QUEUE")]

STYLES = {"active": "green", "paused": "yellow", "disabled": "red"}
VERDICTS = {"delivered": "green", "retry": "yellow", "unknown": "yellow", "gone": "red", "dead": "red"}


@app.command(name="list")
def list_(queue: Listeners = None, /, *, remote: Remote = REMOTE) -> None:
    """List listeners with what waits for them."""
    path = remote.path("listeners") if queue is None else remote.queue(queue, "listeners")
    found = remote.every(path, "listeners")
    if remote.json:
        remote.screen.document(found)
    elif found:
        remote.screen.table(_COLUMNS, [_row(listener) for listener in found])
    else:
        remote.screen.note("no listeners yet; make one with `courier listeners create QUEUE NAME URL`")


_COLUMNS = [
    Column("QUEUE", fold=True),
    Column("NAME", fold=True),
    Column("STATE"),
    Column("WAITING", right=True),
    Column("DELIVERED", right=True),
    Column("DEAD", right=True),
    Column("URL", cut=True),
]


def _row(listener: Json) -> list[Cell]:
    counters = listener["counters"]
    return [
        listener["queue"],
        listener["name"],
        _state(listener),
        f"{counters['waiting_count']:,}",
        f"{counters['delivered_count']:,}",
        f"{counters['dead_letter_count']:,}",
        listener["url"],
    ]


def _state(listener: Json) -> Cell:
    return Styled(listener["state"], STYLES.get(listener["state"], ""))


@app.command
def create(
    queue: QueueName,
    name: Annotated[str, Parameter(help="The new listener's name.")],
    url: Annotated[str, Parameter(help="Where messages are delivered to.")],
    /,
    *,
    liveness_url: str | None = None,
    signing: Literal["hmac", "ed25519"] = "hmac",
    secret: Annotated[SecretText | None, Parameter(metavar="whsec_…|-|@FILE")] = None,
    settings: Wishes = NOTHING,
    remote: Remote = REMOTE,
) -> None:
    """Create a listener; it gets every message that is sent from now on.

    Parameters
    ----------
    liveness_url
        A URL that answers while the receiver is up.
    signing
        hmac shares a secret with the receiver; with ed25519 the receiver needs only a public key.
    secret
        Sign with this secret instead of a new one; - reads it from standard input, @FILE from a file.
    """
    order: Json = {"name": name, "url": url, "signing": signing, "settings": settings.document()}
    order |= {"liveness_url": liveness_url} if liveness_url else {}
    order |= {"secret": secret} if secret else {}
    document = remote.client.post(remote.queue(queue, "listeners"), order)
    _reveal(remote, document, f"created listener {document['name']} ({document['id']})")


def _reveal(remote: Remote, document: Json, sentence: str) -> None:
    """What the receiver needs to verify signatures."""
    if remote.json:
        remote.screen.document(document)
        return
    newest = document["secrets"][0]
    remote.screen.line(sentence)
    if "public_key" in newest:
        remote.screen.line(f"public key: {newest['public_key']}", style="bold")
    else:
        remote.screen.line(f"secret: {newest['value']}", style="bold")


@app.command
def show(queue: QueueName, listener: ListenerName, /, *, reveal: Flag = False, remote: Remote = REMOTE) -> None:
    """Show a listener, how it is doing and how deliveries to it are made.

    Parameters
    ----------
    reveal
        Show its signing secrets too; needs the right to manage the queue.
    """
    query = {"reveal": "true"} if reveal else {}
    document = remote.client.get(remote.queue(queue, "listeners", listener), query)
    if remote.json:
        remote.screen.document(document)
        return
    facts = [*_facts(document), *_health_facts(document), *setting_facts(document["settings"])]
    remote.screen.sheet(f"listener {document['name']}", facts)


def _facts(listener: Json) -> list[tuple[str, Cell]]:
    counters = listener["counters"]
    facts: list[tuple[str, Cell]] = [
        ("id", listener["id"]),
        ("queue", listener["queue"]),
        ("url", listener["url"]),
        ("liveness url", listener["liveness_url"] or "none"),
        ("state", _state(listener)),
    ]
    if listener["reason"]:
        facts.append(("reason", listener["reason"]))
    for secret in listener.get("secrets", ()):
        if secret.get("public_key"):
            facts.append(("public key", secret["public_key"]))
        if secret.get("value"):
            until = "" if secret["expires_at"] is None else f" (until {show_instant(secret['expires_at'])})"
            facts.append(("secret", f"{secret['value']}{until}"))
    return [
        *facts,
        ("waiting", show_count(counters["waiting_count"], "message")),
        ("delivered", show_count(counters["delivered_count"], "message")),
        ("dead letters", show_count(counters["dead_letter_count"], "message")),
        ("created", show_instant(listener["created_at"])),
    ]


def _health_facts(listener: Json) -> list[tuple[str, Cell]]:
    health, now = listener["health"], SystemClock().now()
    facts: list[tuple[str, Cell]] = [("liveness", health["liveness"]), ("breaker", health["breaker"])]
    if health["last_success_at"] is not None:
        facts.append(("last success", f"{show_age(now - health['last_success_at'])} ago"))
    if health["last_failure_at"] is not None:
        reason = health["last_failure_error"] or f"status {health['last_failure_status']}"
        facts.append(("last failure", f"{show_age(now - health['last_failure_at'])} ago: {reason}"))
    return facts


@app.command
def change(
    queue: QueueName,
    listener: ListenerName,
    /,
    *,
    name: str | None = None,
    deliver_to: Annotated[str | None, Parameter(metavar="URL")] = None,
    liveness_url: str | None = None,
    settings: Wishes = NOTHING,
    remote: Remote = REMOTE,
) -> None:
    """Change a listener; what is not given stays as it is.

    Parameters
    ----------
    name
        A new name.
    deliver_to
        Another URL.
    liveness_url
        Another liveness URL; `none` for no liveness checks.
    """
    given = {"name": name, "url": deliver_to, "liveness_url": liveness_url, "settings": settings.document() or None}
    order: Json = {key: value for key, value in given.items() if value is not None}
    if liveness_url == "none":
        order["liveness_url"] = None
    document = remote.client.patch(remote.queue(queue, "listeners", listener), order)
    remote.screen.tell(document, f"changed listener {document['name']}")


@app.command
def pause(queue: QueueName, listener: ListenerName, /, *, remote: Remote = REMOTE) -> None:
    """Stop delivering; messages wait."""
    document = remote.client.post(remote.queue(queue, "listeners", listener, "pause"), {})
    remote.screen.tell(document, f"paused listener {document['name']}")


@app.command
def resume(queue: QueueName, listener: ListenerName, /, *, remote: Remote = REMOTE) -> None:
    """Deliver again what has waited, also after Courier has disabled the listener."""
    document = remote.client.post(remote.queue(queue, "listeners", listener, "resume"), {})
    remote.screen.tell(document, f"resumed listener {document['name']}")


@app.command
def rotate(
    queue: QueueName,
    listener: ListenerName,
    /,
    *,
    overlap: Duration | None = None,
    secret: Annotated[SecretText | None, Parameter(metavar="whsec_…|-|@FILE")] = None,
    remote: Remote = REMOTE,
) -> None:
    """Sign with a new secret.

    Parameters
    ----------
    overlap
        How long the old secrets sign too. [default: 1d]
    secret
        Sign with this secret instead of a new one; - reads it from standard input, @FILE from a file.
    """
    order: Json = {"overlap_ms": overlap} if overlap is not None else {}
    order |= {"secret": secret} if secret else {}
    document = remote.client.post(remote.queue(queue, "listeners", listener, "rotate-secret"), order)
    _reveal(remote, document, f"rotated the secret of listener {document['name']}")


@app.command
def replay(
    queue: QueueName,
    listener: ListenerName,
    message_ids: Annotated[list[str] | None, Parameter(metavar="MESSAGE", help="Ids of messages.")] = None,
    /,
    *,
    since: Duration | None = None,
    remote: Remote = REMOTE,
) -> None:
    """Deliver messages again: those named, those of a span, or else all that were missed.

    Parameters
    ----------
    since
        All that were sent in the last so many seconds, minutes, hours or days, such as 30m.
    """
    order: Json = {"missed": True}
    if message_ids:
        order = {"message_ids": message_ids}
    elif since is not None:
        order = {"since": SystemClock().now() - since}
    document = remote.client.post(remote.queue(queue, "listeners", listener, "replay"), order)
    remote.screen.tell(document, f"{show_count(document['count'], 'message')} will be delivered again")
    if document["missing"] and not remote.json:
        remote.screen.note(f"not found any more: {', '.join(document['missing'])}")


@app.command
def log(
    queue: QueueName,
    listener: ListenerName,
    /,
    *,
    limit: Annotated[int, Parameter(alias="-n")] = 20,
    remote: Remote = REMOTE,
) -> None:
    """Show the last deliveries, newest first.

    Parameters
    ----------
    limit
        How many at most.
    """
    found: list[Json] = []
    before: str | None = None
    while len(found) < limit:
        query: Json = {"limit": min(limit - len(found), 1_000), "before": before}
        page = remote.client.get(remote.queue(queue, "listeners", listener, "deliveries"), query)
        found.extend(page["deliveries"])
        before = page["next"]
        if before is None:
            break
    if remote.json:
        remote.screen.document(found)
    elif found:
        remote.screen.table(_LOG_COLUMNS, [_log_row(line) for line in found])
    else:
        remote.screen.note("nothing was delivered yet")


_LOG_COLUMNS = [
    Column("AT"),
    Column("MESSAGE", cut=True),
    Column("TRY", right=True),
    Column("VERDICT"),
    Column("STATUS", right=True),
    Column("MS", right=True),
    Column("ANSWER", cut=True),
]


def _log_row(line: Json) -> list[Cell]:
    return [
        show_instant(line["at"]),
        line["message_id"],
        str(line["attempt"]),
        Styled(line["verdict"], VERDICTS.get(line["verdict"], "")),
        "" if line["status"] is None else str(line["status"]),
        "" if line["latency_ms"] is None else str(line["latency_ms"]),
        line["error"] or line["excerpt"] or "",
    ]


@app.command
def delete(queue: QueueName, listener: ListenerName, /, *, yes: Yes = False, remote: Remote = REMOTE) -> None:
    """Delete a listener with all that waits for it."""
    remote.screen.confirm(f"delete listener {listener} and all that waits for it?", yes=yes)
    remote.client.delete(remote.queue(queue, "listeners", listener))
    remote.screen.tell({"deleted": listener}, f"deleted listener {listener}")
