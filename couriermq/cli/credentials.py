"""`courier credentials …`; a secret is shown once, when it is made."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.exits import usage
from couriermq.cli.options import Duration, Yes
from couriermq.cli.quantities import show_instant
from couriermq.cli.screen import Cell, Column, Styled
from couriermq.clock import SystemClock
from couriermq.core.model import Action

app = App(name="credentials", help="Let programs in, each with its own rights.", help_epilogue="")

Json = dict[str, Any]
CredentialId = Annotated[str, Parameter(help="The credential's id.", metavar="CREDENTIAL")]


@app.command(name="list")
def list_(*, remote: Remote = REMOTE) -> None:
    """List the tenant's credentials, without their secrets."""
    credentials = remote.every(remote.path("credentials"), "credentials")
    if remote.json:
        remote.screen.document(credentials)
    elif credentials:
        columns = [
            Column("ID"),
            Column("NAME", fold=True),
            Column("STATE"),
            Column("EXPIRES"),
            Column("MAY", fold=True),
        ]
        now = SystemClock().now()
        remote.screen.table(columns, [_row(credential, now) for credential in credentials])
    else:
        remote.screen.note("no credentials yet; make one with `courier credentials create NAME`")


def _row(credential: Json, now: int) -> list[Cell]:
    return [
        credential["id"],
        credential["name"],
        _state(credential, now),
        "never" if credential["expires_at"] is None else show_instant(credential["expires_at"]),
        _rights(credential),
    ]


def _state(credential: Json, now: int) -> Cell:
    if not credential["enabled"]:
        return Styled("disabled", "yellow")
    if credential["expires_at"] is not None and credential["expires_at"] <= now:
        return Styled("expired", "red")
    return Styled("enabled", "green")


def _rights(credential: Json) -> str:
    """`send, receive:orders`: an action alone is allowed on every queue."""
    return ", ".join(
        scope["action"] if "*" in scope["queues"] else f"{scope['action']}:{'+'.join(scope['queues'])}"
        for scope in credential["scopes"]
    )


@app.command
def create(
    name: Annotated[str, Parameter(help="What the credential is for.")],
    /,
    *,
    may: Annotated[list[str] | None, Parameter(metavar="ACTION[:QUEUE]")] = None,
    expires_in: Duration | None = None,
    requests_per_second: Annotated[float | None, Parameter(metavar="N")] = None,
    remote: Remote = REMOTE,
) -> None:
    """Create a credential and show its secret, once.

    Parameters
    ----------
    may
        What it may do: send, receive, browse, manage or stats, on one queue (receive:orders) or on all (receive);
        audit, to read audit events; may be given again. [default: everything in the tenant but audit]
    expires_in
        Refuse it after this long. [default: never]
    requests_per_second
        Refuse requests beyond this rate. [default: no limit]
    """
    order: Json = {"name": name}
    if may:
        order["scopes"] = read_scopes(may)
    if expires_in is not None:
        order["expires_at"] = SystemClock().now() + expires_in
    if requests_per_second is not None:
        order["requests_per_second"] = requests_per_second
    _reveal(remote, remote.client.post(remote.path("credentials"), order), "created")


def read_scopes(texts: list[str]) -> list[Json]:
    """One scope an action, with all the queues that were named for it."""
    queues: dict[str, list[str]] = {}
    for text in texts:
        action, _, queue = text.partition(":")
        if action not in set(Action):
            raise usage(f"{action!r} is not an action; choose from {', '.join(Action)}")
        queues.setdefault(action, []).append(queue or "*")
    return [{"action": action, "queues": ["*"] if "*" in named else named} for action, named in queues.items()]


@app.command
def show(credential: CredentialId, /, *, remote: Remote = REMOTE) -> None:
    """Show what a credential may do, without its secret."""
    document = remote.client.get(remote.path("credentials", credential))
    if remote.json:
        remote.screen.document(document)
        return
    rate, expires_at = document["requests_per_second"], document["expires_at"]
    facts: list[tuple[str, Cell]] = [
        ("id", document["id"]),
        ("tenant", document["tenant"]),
        ("state", _state(document, SystemClock().now())),
        ("may", _rights(document) or "nothing"),
        ("expires", "never" if expires_at is None else show_instant(expires_at)),
        *_old_secret(document.get("old_secret_expires_at")),
        ("requests", "no limit" if rate is None else f"at most {rate:g} per second"),
        ("created", show_instant(document["created_at"])),
        ("changed", show_instant(document["changed_at"])),
    ]
    remote.screen.sheet(f"credential {document['name']}", facts)


def _old_secret(expires_at: int | None) -> list[tuple[str, Cell]]:
    if expires_at is None or expires_at <= SystemClock().now():
        return []
    return [("old secret", f"good until {show_instant(expires_at)}")]


@app.command
def rotate(
    credential: CredentialId, /, *, overlap: Duration | None = None, yes: Yes = False, remote: Remote = REMOTE
) -> None:
    """Give a credential a new secret, shown once.

    Parameters
    ----------
    overlap
        How long the old secret stays good, up to 7d. [default: it is refused at once]
    """
    if not overlap:
        remote.screen.confirm(f"replace the secret of credential {credential}, and refuse the old one?", yes=yes)
    found = _named(remote, credential)
    order: Json = {} if overlap is None else {"overlap_ms": overlap}
    document = remote.client.post(remote.path("credentials", found, "rotate"), order)
    _reveal(remote, document, "rotated")
    if overlap and not remote.json:
        remote.screen.note(f"the old secret stays good until {show_instant(document['old_secret_expires_at'])}")


def _named(remote: Remote, credential: str) -> str:
    """The id of a credential that is named by its id or its name; a name that several have is refused."""
    listed = remote.every(remote.path("credentials"), "credentials")
    same = [one["id"] for one in listed if one["name"] == credential]
    if any(one["id"] == credential for one in listed) or not same:
        return credential
    if len(same) > 1:
        raise usage(f"{len(same)} credentials are named {credential!r}; name one of them by its id")
    return str(same[0])


def _reveal(remote: Remote, document: Json, verb: str) -> None:
    if remote.json:
        remote.screen.document(document)
        return
    remote.screen.line(f"{verb} credential {document['name']} ({document['id']})")
    remote.screen.line(f"secret: {document['secret']}", style="bold")
    remote.screen.note("keep it now; it is not shown again")


@app.command
def enable(credential: CredentialId, /, *, remote: Remote = REMOTE) -> None:
    """Let a disabled credential in again."""
    _set_enabled(remote, credential, enabled=True)


@app.command
def disable(credential: CredentialId, /, *, remote: Remote = REMOTE) -> None:
    """Refuse a credential until it is enabled again."""
    _set_enabled(remote, credential, enabled=False)


def _set_enabled(remote: Remote, credential: str, *, enabled: bool) -> None:
    document = remote.client.patch(remote.path("credentials", credential), {"enabled": enabled})
    remote.screen.tell(
        document, f"{'enabled' if enabled else 'disabled'} credential {document['name']} ({document['id']})"
    )


@app.command
def delete(credential: CredentialId, /, *, yes: Yes = False, remote: Remote = REMOTE) -> None:
    """Delete a credential; whoever uses it is refused at once."""
    remote.screen.confirm(f"delete credential {credential}?", yes=yes)
    remote.client.delete(remote.path("credentials", credential))
    remote.screen.tell({"deleted": credential}, f"deleted credential {credential}")
