"""The write-ahead log: what was committed and is not yet in the database itself.

It is copied there in the background while commits go on. It may never grow beyond what the room kept on the disk can
hold, because copying it makes the database grow by as much before the log shrinks; and once the disk is low it is
copied and cut off every few commits, so that acks can go on for ever.
"""

import asyncio
import os
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PAGE_BYTES = 4_096
CHANGES = 20_000
"""Row changes after which the log is copied into the database, in the background."""
MOST_PAGES = 16_384
"""A log this long (64 MiB) is brought to its end, so that the next commit starts it anew."""
FEW_PAGES = 256
"""How long the log may be while the disk is low."""

_COUNT_AT = 16
"""Where SQLite's index of the log holds the number of its pages: `mxFrame` in the description of the file format."""


class Log:
    """Knows how long the log is, and keeps it short. Lives in the event loop, copies in a thread of its own."""

    def __init__(
        self,
        db: sqlite3.Connection,
        copier: sqlite3.Connection,
        database: Path,
        *,
        spare_bytes: int,
        disk_is_low: Callable[[], bool],
    ) -> None:
        self.descriptor = os.open(f"{database}-wal", os.O_RDWR)
        # Closed only after SQLite is done with the file: closing it any earlier would drop SQLite's locks on it.
        self._index = os.open(f"{database}-shm", os.O_RDONLY)
        self._db = db
        self._copier = copier
        self._disk_is_low = disk_is_low
        self._most_pages = min(MOST_PAGES, spare_bytes // 2 // PAGE_BYTES or MOST_PAGES)
        self._thread = ThreadPoolExecutor(1, "courier-checkpoint")
        self._copying = False
        self._copied_changes = db.total_changes
        self._copied_pages = 0

    @property
    def page_count(self) -> int:
        return int.from_bytes(os.pread(self._index, 4, _COUNT_AT), sys.byteorder)

    def tend(self) -> None:
        """Called between commits: start copying when it is time to."""
        pages = self.page_count
        if pages < self._copied_pages:
            self._copied_pages = 0  # the log has started anew
        if self._copying or pages <= FEW_PAGES:
            return
        changes = self._db.total_changes - self._copied_changes
        if self._disk_is_low():
            self.cut()
        elif changes > CHANGES or pages - self._copied_pages > self._most_pages:
            self._start_copying(pages)

    def cut(self) -> bool:
        """Copy everything and give the room back, here and now; whether nobody was in the way."""
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            busy, _, _ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            self._db.execute("PRAGMA busy_timeout = 5000")
        return not busy

    def finish(self) -> None:
        self._thread.shutdown()

    def close(self) -> None:
        """Only after every connection has been closed."""
        os.close(self.descriptor)
        os.close(self._index)

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
        if done.cancelled() or done.exception():
            return
        if self.page_count > self._most_pages and not self._db.in_transaction:
            # What came since is little; with nothing left to copy the next commit starts the log from its beginning.
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
