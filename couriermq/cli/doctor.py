"""`courier doctor`: what is wrong, and what to do about it."""

import os
import platform
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from couriermq import __version__, permissions
from couriermq.cli import database
from couriermq.cli.client import PREFIX, Client, Refused, Unreachable, route
from couriermq.cli.connection import CONNECTION, Output, token_of_file
from couriermq.cli.data import Config, Data, read_settings
from couriermq.cli.exits import Exit
from couriermq.cli.options import SecretText
from couriermq.cli.quantities import show_size
from couriermq.cli.screen import Screen
from couriermq.config import Settings
from couriermq.storage.base import CannotOpen
from couriermq.storage.checking import Findings
from couriermq.storage.sqlite import care

COMFORTABLE_BYTES = 1024**3
"""With less room than this it is time to think about it."""
OLDEST_SQLITE = (3, 35, 0)
MARKS = {"good": ("ok     ", "green"), "advice": ("advice ", "yellow"), "wrong": ("wrong  ", "red")}


@dataclass(frozen=True)
class Finding:
    """One sentence about one thing; `wrong` means that somebody must do something."""

    level: Literal["good", "advice", "wrong"]
    sentence: str


def doctor(
    *,
    data: Data = None,
    config: Config = None,
    url: Annotated[str | None, Parameter(env_var="COURIER_URL", group=CONNECTION)] = None,
    token: Annotated[SecretText | None, Parameter(env_var="COURIER_TOKEN", group=CONNECTION)] = None,
    ca_file: Annotated[str | None, Parameter(group=CONNECTION, metavar="FILE")] = None,
    json: Output = False,
) -> int:
    """Look for what is wrong with a data directory or database and, if its address is known, with the server.

    Parameters
    ----------
    url
        Ask this server for its health too.
    token
        See whether the server knows this token; - reads it from standard input, @FILE from a file.
    ca_file
        The certificates to trust for https, where the system's do not do.
    """
    screen, settings = Screen(json=json), read_settings({"data": data}, config)
    findings = [*_versions()]
    if database.is_database(settings):
        with screen.busy("checking the database"):
            findings += _database(settings.store)
    if settings.data.exists() or data is not None or not (url or database.is_database(settings)):
        with screen.busy(f"checking {settings.data}"):
            findings += _data(settings)
    if url:
        token = token or token_of_file()
        findings += _server(Client(url, token=token, ca_file=ca_file), has_token=bool(token))
    _show(screen, findings)
    return Exit.FAILED if any(finding.level == "wrong" for finding in findings) else Exit.OK


def _show(screen: Screen, findings: list[Finding]) -> None:
    if screen.json:
        screen.document([asdict(finding) for finding in findings])
        return
    for finding in findings:
        mark, style = MARKS[finding.level]
        screen.marked(mark, style, finding.sentence)


def _versions() -> Iterator[Finding]:
    sentence = f"Courier {__version__} on Python {platform.python_version()} with SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        yield Finding("wrong", f"{sentence} is too old; install a Python that brings SQLite {wanted} or newer")
    else:
        yield Finding("good", sentence)


# -- the data directory ---------------------------------------------------------------------------------------


def _data(settings: Settings) -> Iterator[Finding]:
    directory = settings.data
    if not directory.is_dir():
        yield Finding("wrong", f"there is no data directory {directory}; name the right one with --data")
        return
    rights = list(_rights(settings))
    yield from rights
    yield _room(directory, settings.min_free_bytes)
    if not database.is_database(settings) and not any(finding.level == "wrong" for finding in rights):
        yield from _contents(directory)


def _rights(settings: Settings) -> Iterator[Finding]:
    directory = settings.data
    unusable = [path for path in (directory, *directory.iterdir()) if not os.access(path, os.R_OK | os.W_OK)]
    if unusable:
        owner = f"user {unusable[0].stat().st_uid}"
        yield Finding("wrong", f"{unusable[0]} cannot be read and written; run this as {owner}, or chown it")
    exposed = permissions.open_to_others(settings)
    yield from (Finding("advice", found.sentence) for found in exposed)
    if not exposed and not unusable:
        yield Finding("good", f"{directory} belongs to this user alone")


def _room(directory: Path, min_free_bytes: int) -> Finding:
    free = shutil.disk_usage(directory).free
    if free < min_free_bytes:
        return Finding("wrong", f"only {show_size(free)} are free on the disk, so sends are refused; make room")
    if free < COMFORTABLE_BYTES:
        return Finding("advice", f"only {show_size(free)} are free on the disk; make room before it is full")
    return Finding("good", f"{show_size(free)} are free on the disk")


def _contents(directory: Path) -> Iterator[Finding]:
    return _found(
        care.examine(directory),
        sound="the database is intact, its counters agree with its messages, its journal has no gap",
        remedy=f"stop the server, put {directory} aside, and bring a backup back with `courier restore`",
    )


def _database(url: str) -> Iterator[Finding]:
    try:
        findings = database.examine(url)
    except CannotOpen as error:
        yield Finding("wrong", str(error))
        return
    yield from _found(
        findings,
        sound="the counters in the database agree with its messages, its journal has no gap",
        remedy="stop all nodes and restore the database to the moment before, or bring a backup back",
    )


def _found(findings: Findings, *, sound: str, remedy: str) -> Iterator[Finding]:
    yield from (Finding("wrong", sentence) for sentence in findings.all_damage)
    yield from (Finding("advice", f"{sentence}; start this one on it once") for sentence in findings.not_checked)
    if findings.damage:
        yield Finding("advice", remedy)
    elif findings.set_aside:
        yield Finding("advice", f"everything else goes on, and can be backed up; to get back what was lost, {remedy}")
    elif not findings.not_checked:
        yield Finding("good", sound)


# -- the server -----------------------------------------------------------------------------------------------


def _server(client: Client, *, has_token: bool) -> Iterator[Finding]:
    try:
        about = client.get(PREFIX)
    except (Refused, Unreachable) as failure:
        yield Finding("wrong", str(failure))
        return
    yield _same_version(client.url, str(about.get("version")))
    yield from (_health(client, path, meaning) for path, meaning in (("/healthz", "alive"), ("/readyz", "ready")))
    if has_token:
        yield _welcome(client)


def _same_version(url: str, version: str) -> Finding:
    if version != __version__:
        sentence = f"{url} runs Courier {version} and this command is {__version__}; upgrade the older of the two"
        return Finding("advice", sentence)
    return Finding("good", f"{url} runs Courier {version}")


def _health(client: Client, path: str, meaning: str) -> Finding:
    status, words = client.probe(path)
    if status != 200:
        return Finding("wrong", f"the server is not {meaning} ({path} answers {status}: {words}); look into its log")
    return Finding("good", f"the server is {meaning}")


def _welcome(client: Client) -> Finding:
    try:
        who = client.get(route("whoami"))
    except Refused as refused:
        return Finding("wrong", f"the server refuses the token: {refused}")
    rights = "may do everything" if who["tenant"] is None else f"belongs to tenant {who['tenant']}"
    return Finding("good", f"the token is that of {who['id']}, which {rights}")
