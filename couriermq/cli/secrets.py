"""`courier secrets …`: keys that encrypt listeners' secrets at rest."""

import asyncio
import base64
import os
import stat
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from couriermq import server
from couriermq.catalog.vault import KEY_BYTES
from couriermq.cli.connection import Output
from couriermq.cli.data import Config, Data, read_settings
from couriermq.cli.exits import Failure
from couriermq.cli.screen import Screen
from couriermq.clock import SystemClock
from couriermq.config import Settings
from couriermq.durable import sync_parent
from couriermq.storage.base import CannotOpen

app = App(name="secrets", help="Encrypt listeners' secrets at rest, and change the key.", help_epilogue="")


@app.command
def new_key(
    file: Annotated[Path, Parameter(help="The key file; a new key goes before those that it has.", metavar="FILE")],
    /,
    *,
    json: Output = False,
) -> None:
    """Make a key, in a new file or before the keys of a file."""
    line = base64.b64encode(SystemClock().random_bytes(KEY_BYTES)).decode() + "\n"
    path = file.resolve()  # a link goes on leading to the file
    try:
        old = path.read_text() if path.exists() else ""
        _replace(path, line + old)
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror}") from None
    count = len([each for each in (line + old).splitlines() if each.strip() and each[:1] != "#"])
    Screen(json=json).tell({"file": str(file), "key_count": count}, f"{file} has {count} keys now, the new one first")


def _replace(path: Path, content: str) -> None:
    """Put a file in the place of another, which keeps its owner and mode; on disk it is one of both, whole."""
    written = path.with_name(f"{path.name}.new")
    try:
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Failure(f"{written} is there: another call runs, or did not end; delete it, then try again") from None
    try:
        with os.fdopen(descriptor, "w") as output:
            if path.exists():
                _copy_rights(path.stat(), descriptor)
            output.write(content)
            output.flush()
            os.fsync(descriptor)
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
    sync_parent(path)


def _copy_rights(of: os.stat_result, descriptor: int) -> None:
    present = os.fstat(descriptor)
    if (of.st_uid, of.st_gid) != (present.st_uid, present.st_gid):
        os.fchown(descriptor, of.st_uid, of.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(of.st_mode))


@app.command
def encrypt(*, data: Data = None, config: Config = None, json: Output = False) -> None:
    """Encrypt all secrets with the first key of `secrets_key_file`, while no server uses the data directory.

    A server does the same when it starts. On PostgreSQL servers may go on, once all of them have the key.
    """
    settings = read_settings({"data": data}, config)
    if settings.secrets_key_file is None:
        raise Failure("secrets_key_file is not set; `courier secrets new-key FILE` makes a file for it")
    try:
        count = asyncio.run(_encrypt(settings))
    except (CannotOpen, server.CannotStart) as error:
        raise Failure(str(error)) from None
    sentence = f"the secrets of {count} listeners are encrypted with the first key of {settings.secrets_key_file}"
    Screen(json=json).tell({"listener_count": count}, sentence)


async def _encrypt(settings: Settings) -> int:
    async with server.running(settings, dialects=()) as node:
        return len(node.services.catalog.listeners())
