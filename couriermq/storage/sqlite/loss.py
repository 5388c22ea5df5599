"""Finds out whether commits that were synced are missing: compares the mark with the database and its log."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from couriermq.storage.sqlite.connection import DATABASE, connect
from couriermq.storage.sqlite.identity import NEXT
from couriermq.storage.sqlite.mark import NO_LOG, Position, Progress, read_mark, read_position


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What is missing of what was synced."""

    next_offset: int
    """Where the journal ends."""
    synced: Progress
    """What the mark says."""
    cause: str

    @property
    def event_count(self) -> int:
        """How many events are missing at least."""
        return max(0, self.synced.next_offset - self.next_offset)

    def __str__(self) -> str:
        return (
            f"{self.cause}; the journal ends at offset {self.next_offset} and was synced up to"
            f" {self.synced.next_offset}, so that at least {self.event_count} events are lost"
        )


def find_loss(directory: Path) -> Loss | None:
    """What is missing, if anything is; changes nothing. Works beside a running server."""
    mark = read_mark(directory)  # before the database, which may only have gone further by then
    if mark is None:
        return None
    # A connection that cannot write leaves the log as it is when it is closed.
    with closing(connect(directory / DATABASE, read_only=True)) as db:
        next_offset = _next_offset(db)
        log = _log(directory)
    if cause := _cause(mark, next_offset, log):
        return Loss(next_offset=next_offset, synced=mark, cause=cause)
    return None


def log_is_missing(directory: Path) -> bool:
    """Whether there is no log where the mark expects one, as after another program has used the database."""
    mark = read_mark(directory)
    return mark is not None and mark.has_log and not _size(_log_path(directory))


def _cause(mark: Progress, next_offset: int, log: Position) -> str | None:
    if mark.has_log and log.salt == mark.log.salt and log.frames < mark.log.frames:
        return f"the log {DATABASE}-wal is damaged: {log.frames} of {mark.log.frames} pages can be read"
    if mark.has_log and log.salt == NO_LOG.salt:
        return f"the log {DATABASE}-wal is damaged: its header cannot be read"
    if next_offset < mark.next_offset:
        return "the database is older than what was synced"
    return None


def _next_offset(db: sqlite3.Connection) -> int:
    try:
        row = db.execute("SELECT start + count FROM journal ORDER BY start DESC LIMIT 1").fetchone()
        kept = None if row else db.execute("SELECT value FROM meta WHERE name = ?", (NEXT,)).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        row = kept = None  # the database is empty
    if kept:
        return msgspec.msgpack.decode(kept[0], type=tuple[int, int, int])[0]
    return int(row[0]) if row else 0


def _log(directory: Path) -> Position:
    """Where the log ends by SQLite's index, which a connection has just made or found."""
    if not _size(_log_path(directory)):
        return Position(b"gone", 0)
    with (directory / f"{DATABASE}-shm").open("rb") as index:
        return read_position(index.read(64))


def _log_path(directory: Path) -> Path:
    return directory / f"{DATABASE}-wal"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
