"""`courier backup` and `courier restore`."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from couriermq.cli import database
from couriermq.cli.connection import Output
from couriermq.cli.data import Config, Data, read_settings
from couriermq.cli.exits import Failure
from couriermq.cli.progress import Progress
from couriermq.cli.quantities import show_size
from couriermq.cli.screen import Screen
from couriermq.storage.base import CannotOpen
from couriermq.storage.checking import Findings
from couriermq.storage.sqlite import care

SOUND = " and found the copy sound"
LEFT_BY_A_SERVER = {"lock", "port"}
"""Files that a data directory may hold and still be empty."""


def backup(
    target: Annotated[Path, Parameter(help="A new directory for the copy.", metavar="DEST")],
    /,
    *,
    data: Data = None,
    config: Config = None,
    json: Output = False,
) -> None:
    """Copy the data as it is at this moment, while the server goes on working, and check the copy."""
    screen, settings = Screen(json=json), read_settings({"data": data}, config)
    directory = settings.data
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Failure(f"{target} is there already and not empty; name a new directory for the copy")
    with _removed_on_failure(target), as_failures():
        if database.is_database(settings):
            with screen.busy("copying the database"):
                database.backup(settings.store, target)
                findings = Findings()
        else:
            with Progress("copying", unit="page", json=json) as progress:
                findings = care.backup(directory, target, lambda done, total: progress.reach(done, total=total))
    source, outcome = ("the database", "") if database.is_database(settings) else (str(directory), SOUND)
    if findings.warnings:
        outcome = ""
    size = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    sentence = f"copied {source} to {target} ({show_size(size)}){outcome}"
    found = {"source": source, "target": str(target), "byte_count": size, "warnings": findings.warnings}
    screen.tell(found, sentence)
    _warn(screen, findings)


def _warn(screen: Screen, findings: Findings) -> None:
    for sentence in findings.warnings:
        screen.warn(sentence)


@contextmanager
def _removed_on_failure(target: Path) -> Iterator[None]:
    """Half a copy must not be taken for a whole one."""
    made = not target.exists()
    try:
        yield
    except BaseException:
        for path in target.glob("*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if made and target.exists():
            target.rmdir()
        raise


def restore(
    source: Annotated[Path, Parameter(help="The directory that `courier backup` made.", metavar="SRC")],
    /,
    *,
    data: Data = None,
    config: Config = None,
    json: Output = False,
) -> None:
    """Check a backup and put it into a data directory or a database that is empty and not in use."""
    screen, settings = Screen(json=json), read_settings({"data": data}, config)
    if database.is_database(settings):
        target, start = "the database", "start the nodes"
        with as_failures(), screen.busy(f"restoring {source}"):
            findings = database.restore(settings.store, source)
    else:
        target, start = str(settings.data), f"start it with `courier serve --data {settings.data}`"
        refuse_strangers(settings.data)
        with as_failures(), screen.busy(f"restoring {source}"):
            care.restore(source, settings.data)
            findings = care.examine(settings.data)
    if findings.damage:
        raise Failure(f"the restored data in {target} is not sound: {findings.damage[0]}")
    found = {"source": str(source), "target": target, "warnings": findings.warnings}
    screen.tell(found, f"restored {source} to {target}; {start}")
    _warn(screen, findings)


def refuse_strangers(directory: Path) -> None:
    """A directory with anything in it is somebody's; data of Courier is refused by the store, with its reason."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise Failure(f"{directory} is not a directory")
    found = {file.name for file in directory.iterdir()} - LEFT_BY_A_SERVER
    if found and not any(name.startswith("courier.db") for name in found):
        raise Failure(f"{directory} is not empty (it holds {min(found)}); restore into an empty directory")


@contextmanager
def as_failures() -> Iterator[None]:
    try:
        yield
    except (CannotOpen, sqlite3.Error) as error:
        raise Failure(str(error)) from None
