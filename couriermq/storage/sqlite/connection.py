"""One data directory, one process: opening the database and keeping its schema up to date."""

import contextlib
import fcntl
import os
import re
import sqlite3
import stat
import struct
from importlib.resources import files
from pathlib import Path

from couriermq.durable import make_folder
from couriermq.storage.base import CannotOpen
from couriermq.storage.sqlite.checksums import register

DATABASE = "courier.db"
LOCK = "lock"
OWN_FILES = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", f"{DATABASE}-mark", LOCK)
PRIVATE_FILE = 0o600
"""The database holds the key that seals receipts, so its owner alone reads it, whatever the umask."""
_LOCKED_BYTE = 1 << 62
"""Beyond the largest database that SQLite can make, and far from the bytes at 1 GiB that it locks."""
_FLOCK = struct.Struct("hhqqi0q")
_VERSION = re.compile(r"\d+")

PRAGMAS = (
    # A commit writes whole pages, most of them for a few bytes: with SQLite's 4 KiB a third more goes to the disk. This
    # takes effect where a database is made; others keep the size that they have.
    "page_size = 2048",
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
    """Held while a process owns a data directory; the system releases it when the process dies.

    The lock file names the owner and guards a directory that has no database yet. Anybody can delete that file, so the
    database itself is locked too.
    """

    def __init__(self, directory: Path, *, database: bool) -> None:
        self._files = [os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)]
        try:
            fcntl.flock(self._files[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
            if database:
                self._files.append(_lock_database(directory / DATABASE))
        except OSError as error:
            owner = os.read(self._files[0], 32).decode(errors="replace").strip() or "unknown"
            self.release()
            if not isinstance(error, BlockingIOError):
                raise
            raise CannotOpen(
                f"the data directory {directory} is in use by another Courier (process {owner}); "
                "stop it or choose another directory with --data"
            ) from None
        os.ftruncate(self._files[0], 0)
        os.pwrite(self._files[0], f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Call this after the connections are closed: closing a descriptor drops SQLite's own locks on that file."""
        for file in self._files:
            os.close(file)


_refused: dict[Path, int] = {}
"""Descriptors whose lock was refused, kept for the next attempt: closing one would drop the locks that connections of
this process hold on the same database."""


def _lock_database(path: Path) -> int:
    """Lock a byte of the database that SQLite never locks, for as long as the returned descriptor is open.

    The lock belongs to the open file description: unlike SQLite's own it survives the closing of other descriptors.
    Raises BlockingIOError if another process has it.
    """
    file = _refused.pop(path, None)
    if file is not None and not (path.exists() and os.path.samestat(os.fstat(file), path.stat())):
        os.close(file)
        file = None
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE) if file is None else file
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _LOCKED_BYTE, 1, 0))
    except OSError:
        _refused[path] = file
        raise
    return file


def prepare(directory: Path, *, database: bool = True) -> DirectoryLock:
    """Make the directory and an empty database if need be and take them; raises CannotOpen with the reason."""
    try:
        make_folder(directory, mode=0o700)
        lock = DirectoryLock(directory, database=database)
    except OSError as error:
        raise CannotOpen(f"the data directory {directory} cannot be used: {error.strerror}") from error
    for name in OWN_FILES:
        make_private(directory / name)
    return lock


def make_private(path: Path) -> None:
    """Close one of Courier's own files to other users; what belongs to somebody else stays as it is."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(PRIVATE_FILE)


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
    register(connection)
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
