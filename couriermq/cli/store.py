"""`courier store …`: which store this is, and that it is a restored copy."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from couriermq.cli import database
from couriermq.cli.connection import Output
from couriermq.cli.copies import as_failures
from couriermq.cli.data import Config, Data, read_settings
from couriermq.cli.screen import Screen
from couriermq.core.incarnations import Identity, Incarnation
from couriermq.storage.sqlite import care

SNAPSHOT = "the operator says that the data was restored"

app = App(name="store", help="See which store this is, and say that it is a restored copy.", help_epilogue="")


@app.command
def show(*, data: Data = None, config: Config = None, json: Output = False) -> None:
    """Print the store's id and its incarnations: each restore begins a new one."""
    screen, settings = Screen(json=json), read_settings({"data": data}, config)
    with as_failures():
        if database.is_database(settings):
            found = database.identities(settings.store)
        else:
            found = [("home", care.identity_of(settings.data))]
    if json:
        screen.document({"shards": [{"shard": name, "identity": msgspec.to_builtins(one)} for name, one in found]})
        return
    for name, identity in found:
        _print(screen, name if len(found) > 1 else None, identity)


def _print(screen: Screen, shard: str | None, identity: Identity | None) -> None:
    prefix = "" if shard is None else f"shard {shard}: "
    if identity is None:
        screen.line(f"{prefix}no id yet; the next start makes one")
        return
    screen.line(f"{prefix}store {identity.store}")
    for one in identity.incarnations:
        screen.line(f"  incarnation {one.name}{_origin(one)}")


def _origin(one: Incarnation) -> str:
    if not one.tag:
        return ""
    began = datetime.fromtimestamp(one.began_at / 1_000, tz=UTC)
    return f" since {began:%Y-%m-%d %H:%M:%S} UTC: {one.reason}"


@app.command
def begin_incarnation(
    *,
    reason: Annotated[str, Parameter(help="Why; the journal and the log tell it.")] = SNAPSHOT,
    data: Data = None,
    config: Config = None,
    json: Output = False,
) -> None:
    """Say that the data is a restored copy, such as a snapshot of a file system, which nothing else can tell.

    The server must not be running. The next start begins a new incarnation: numbers jump ahead, and receipts, offsets
    and positions from before are not accepted any more.
    """
    screen, settings = Screen(json=json), read_settings({"data": data}, config)
    with as_failures():
        if database.is_database(settings):
            database.begin_incarnation(settings.store, reason=reason)
        else:
            care.begin_incarnation(settings.data, reason=reason)
    screen.tell({"reason": reason}, "the next start begins a new incarnation of the store")
