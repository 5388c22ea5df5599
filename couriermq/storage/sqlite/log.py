"""The write-ahead log: what was committed and is not yet in the database itself.

It is copied there in the background while commits go on. It may never grow beyond what the room kept on the disk can
hold, because copying it makes the database grow by as much before the log shrinks; and once the disk is low it is
copied and cut off every few commits, so that acks can go on for ever.
"""

import asyncio
import mmap
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from couriermq.storage.sqlite.mark import SYNC_SECONDS, Mark, Position, read_position

CHANGES = 20_000
"""Row changes after which the log is copied into the database, in the background."""
MOST_BYTES = 64 * 1024 * 1024
"""A log this long is brought to its end, so that the next commit starts it anew."""
FEW_BYTES = 1024 * 1024
"""How long the log may be while the disk is low."""

_INDEX_BYTES = 4_096
_FAILED_SYNCS = {"SQLITE_IOERR_FSYNC", "SQLITE_IOERR_DIR_FSYNC"}


class Log:
    """Knows how long the log is, and keeps it short. Lives in the event loop, copies in a thread of its own."""

    def __init__(
        self,
        db: sqlite3.Connection,
        copier: sqlite3.Connection,
        database: Path,
        *,
        mark: Mark,
        spare_bytes: int,
        disk_is_low: Callable[[], bool],
    ) -> None:
        self.descriptor = os.open(f"{database}-wal", os.O_RDWR)
        # Closed only after SQLite is done with the file: closing it any earlier would drop SQLite's locks on it.
        self._index_file = os.open(f"{database}-shm", os.O_RDONLY)
        self._index = mmap.mmap(self._index_file, _INDEX_BYTES, access=mmap.ACCESS_READ)
        self.mark = mark
        self.fail: Callable[[str], None] = lambda reason: None
        """Called when a sync of SQLite's own has failed."""
        self._db = db
        self._copier = copier
        self._disk_is_low = disk_is_low
        (page_bytes,) = db.execute("PRAGMA page_size").fetchone()
        self._few_pages = FEW_BYTES // page_bytes
        self._most_pages = min(MOST_BYTES, spare_bytes // 2 or MOST_BYTES) // page_bytes
        self._thread = ThreadPoolExecutor(1, "courier-checkpoint")
        self._copying = False
        self._copied_changes = db.total_changes
        self._copied_pages = 0
        self._mark_is_due = False
        self._is_finished = False

    @property
    def position(self) -> Position:
        return read_position(self._index)

    @property
    def page_count(self) -> int:
        return self.position.frames

    def keep_mark(self) -> None:
        """Called after each sync: have the mark synced within a second."""
        if not self._mark_is_due and not self.mark.is_synced:
            self._mark_is_due = True
            asyncio.get_running_loop().call_later(SYNC_SECONDS, self._sync_mark)

    def _sync_mark(self) -> None:
        self._mark_is_due = False
        if not self.mark.is_synced and not self._is_finished:
            syncing = asyncio.get_running_loop().run_in_executor(self._thread, self.mark.sync)
            syncing.add_done_callback(self._mark_synced)

    def _mark_synced(self, done: "asyncio.Future[None]") -> None:
        if not done.cancelled() and (error := done.exception()):
            self.fail(f"the disk did not take the mark of the last commit: {error}")

    def tend(self) -> None:
        """Called between commits: start copying when it is time to."""
        pages = self.page_count
        if pages < self._copied_pages:
            self._copied_pages = 0  # the log has started anew
        if self._copying or pages <= self._few_pages:
            return
        changes = self._db.total_changes - self._copied_changes
        if self._disk_is_low():
            self.cut()
        elif changes > CHANGES or pages - self._copied_pages > self._most_pages:
            self._start_copying(pages)

    def cut(self) -> bool:
        """Copy everything and give the room back, here and now; whether nobody was in the way."""
        self.mark.expect_no_log()
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            busy, _, _ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            self._db.execute("PRAGMA busy_timeout = 5000")
        return not busy

    def finish(self) -> None:
        self._is_finished = True
        self._thread.shutdown()

    def close(self) -> None:
        """Only after every connection has been closed."""
        os.close(self.descriptor)
        self._index.close()
        os.close(self._index_file)
        self.mark.close()

    def _start_copying(self, pages: int) -> None:
        self._copying = True
        self._copied_changes = self._db.total_changes
        self._copied_pages = pages
        copying = asyncio.get_running_loop().run_in_executor(self._thread, self._copy)
        copying.add_done_callback(self._copied)

    def _copy(self) -> None:
        self._copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def _copied(self, done: "asyncio.Future[None]") -> None:
        self._copying = False
        if done.cancelled() or self._is_finished:
            return
        if error := done.exception():
            self.check(error)
            return
        if self.page_count > self._most_pages and not self._db.in_transaction:
            # What came since is little; with nothing left to copy the next commit starts the log from its beginning.
            try:
                self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
            except sqlite3.Error as failed:
                self.check(failed)

    def check(self, error: BaseException) -> None:
        """Whether an error says that a sync has failed, one of SQLite's own or that of the mark."""
        if isinstance(error, OSError) or getattr(error, "sqlite_errorname", "") in _FAILED_SYNCS:
            self.fail(f"the disk did not take the last write: {error}")
