"""One data directory, one process: opening the database and keeping its schema up to date."""

import fcntl
import os
import re
import sqlite3
from importlib.resources import files
from pathlib import Path

from couriermq.storage.base import CannotOpen

DATABASE = "courier.db"
LOCK = "lock"
_VERSION = re.compile(r"\d+")

PRAGMAS = (
    "journal_mode = WAL",
    # The commit writes the log and we sync it ourselves, off the event loop; NORMAL still orders log and database
    # around a checkpoint.
    "synchronous = NORMAL",
    "wal_autocheckpoint = 0",
    "cache_size = -65536",
    "temp_store = MEMORY",
    "foreign_keys = OFF",
    # Some builds overwrite every page that is freed, which makes a trim of the journal cost what writing it did.
    "secure_delete = FAST",
)


class DirectoryLock:
    """Held while a process owns a data directory; the system lets go of it when the process dies."""

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(self._file, 32).decode().strip() or "unknown"
            os.close(self._file)
            raise CannotOpen(
                f"the data directory {directory} is in use by another Courier (process {owner}); "
                "stop it or choose another directory with --data"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._file)


def prepare(directory: Path) -> DirectoryLock:
    """Make the directory if need be and take it; raises CannotOpen with the reason."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return DirectoryLock(directory)
    except OSError as error:
        raise CannotOpen(f"the data directory {directory} cannot be used: {error.strerror}") from error


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode: transactions are ours to begin and end."""
    mode = "ro" if read_only else "rwc"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        timeout=5,
    )
    if not read_only:
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    return connection


def migrations() -> list[tuple[int, str]]:
    """(version, SQL) of every schema step, in order."""
    folder = files(__package__).joinpath("migrations")
    found = [(_VERSION.match(file.name), file) for file in folder.iterdir()]
    return sorted((int(match[0]), file.read_text()) for match, file in found if match)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema to this version of Courier, one transaction a step; refuses a schema from the future."""
    (present,) = connection.execute("PRAGMA user_version").fetchone()
    steps = migrations()
    if present > steps[-1][0]:
        raise CannotOpen(
            f"the data was written by a newer Courier (schema {present}, this one knows {steps[-1][0]}); upgrade it"
        )
    for version, sql in steps:
        if version > present:
            connection.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version = {version};\nCOMMIT;")


def sync_directory(directory: Path) -> None:
    """Make the names of new files durable, not only their contents."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
