"""`courier migrate`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from couriermq.cli.connection import Output
from couriermq.cli.exits import Failure
from couriermq.cli.options import Flag, SecretText
from couriermq.cli.progress import Progress
from couriermq.cli.screen import Screen
from couriermq.clock import SystemClock
from couriermq.storage.base import CannotOpen
from couriermq.storage.dump import Dump
from couriermq.storage.migrating import Migration, Report
from couriermq.storage.sqlite.dumping import SqliteDump

LOOK_EVERY_S = 1.0


def migrate(
    *,
    from_: Annotated[SecretText, Parameter(name="--from", metavar="STORE|@FILE")],
    to: Annotated[SecretText, Parameter(metavar="STORE|@FILE")],
    no_wait: Flag = False,
    json: Output = False,
) -> None:
    """Copy a store to another engine: sqlite:DIR, or postgresql://…, each way.

    The source may be in use while most of it is copied. When that is done, stop its server (all its nodes): the rest
    is copied once nobody serves it, everything is compared, and the new store can be served. An interrupted migration
    goes on where it was. The source stays as it is; the archive stays where it is.

    Parameters
    ----------
    from_
        The store to copy: sqlite: and its data directory, or the address of a database.
    to
        Where to: a new data directory, or an empty database.
    no_wait
        Where the source is still served at the end, stop instead of waiting; run it again later.
    """
    screen = Screen(json=json)
    with Progress("migrating", unit="row", json=json) as progress:
        try:
            messages, events = asyncio.run(_migrate(from_, to, screen, _reporter(progress), wait=not no_wait))
        except CannotOpen as error:
            raise Failure(str(error)) from error
    found = {"from": _shown(from_), "to": _shown(to), "message_count": messages, "event_count": events}
    screen.tell(found, f"copied and compared {messages} messages and {events} events; serve the new store from now on")


def _reporter(progress: Progress) -> Report:
    def report(step: str, done: int, total: int) -> None:
        progress.reach(done, total=max(done, total), step=step)

    return report


async def _migrate(source_url: str, target_url: str, screen: Screen, report: Report, *, wait: bool) -> tuple[int, int]:
    source, target = _dump(source_url, source=True), _dump(target_url, source=False)
    async with _opened(source), _opened(target):
        if not await target.hold():
            raise Failure("the target is being served; migrate into an empty store that nobody uses")
        migration = Migration(source, target, report)
        await migration.copy()
        if not await source.hold():
            screen.note("most of it is copied; stop the server of the source now, and the rest follows")
            await _wait_for(source, wait)
        return await migration.finish(now=SystemClock().now())


def _shown(url: str) -> str:
    if url.startswith("sqlite:"):
        return url
    from couriermq.storage.postgres.failures import without_secrets  # noqa: PLC0415 - an extra that many do without

    return without_secrets(url)


async def _wait_for(source: Dump, wait: bool) -> None:
    while not await source.hold():
        if not wait:
            raise Failure("the source is still being served; stop it and run this again, which goes on from here")
        await asyncio.sleep(LOOK_EVERY_S)


@contextlib.asynccontextmanager
async def _opened(store: Dump) -> AsyncIterator[None]:
    await store.open()
    try:
        yield
    finally:
        await store.close()


def _dump(url: str, *, source: bool) -> Dump:
    if url.startswith("sqlite:"):
        return SqliteDump(Path(url.removeprefix("sqlite:")), source=source)
    if not url.startswith(("postgresql://", "postgres://")):
        option = "--from" if source else "--to"
        raise Failure(f"{option} is no store; write sqlite:DIR or postgresql://…")
    try:
        from couriermq.storage.postgres.dumping import PostgresDump  # noqa: PLC0415 - an extra that many do without
    except ImportError:
        raise Failure("a PostgreSQL store needs the extra: install couriermq[postgres]") from None
    return PostgresDump(url, source=source)
