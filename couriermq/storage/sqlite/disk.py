"""Room on the disk: sends are refused while there is still enough for acks, releases and checkpoints."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from couriermq.storage.group_commit import Collector

if TYPE_CHECKING:
    import sqlite3


class Disk:
    """The part of the store that looks at the disk."""

    if TYPE_CHECKING:
        path: Path
        _db: sqlite3.Connection
        _commit: Collector
        _min_free_bytes: int

    _commits_seen = -1
    _full: str | None = None

    def _refusal(self) -> str | None:
        """Why a message cannot be taken. The disk is looked at once a commit, and every time while it is full."""
        if self._full is not None or self._commits_seen != self._commit.metrics.commits:
            self._commits_seen = self._commit.metrics.commits
            self._full = self._look_at_disk()
        return self._full

    def _look_at_disk(self) -> str | None:
        free = self._free_bytes()
        if free >= self._min_free_bytes:
            return None
        # Room inside the database is as good, as long as the log itself has some on the disk.
        if free >= self._min_free_bytes // 4 and free + self._inner_free_bytes() >= self._min_free_bytes:
            return None
        return f"the disk is almost full ({free // 1024} KiB left); free some space, or receive and ack messages"

    def _is_disk_low(self) -> bool:
        return self._free_bytes() < self._min_free_bytes

    def _free_bytes(self) -> int:
        stat = os.statvfs(self.path)
        return stat.f_bavail * stat.f_frsize

    def _inner_free_bytes(self) -> int:
        """What messages that are gone have left free inside the database."""
        (pages,) = self._db.execute("PRAGMA freelist_count").fetchone()
        (page_bytes,) = self._db.execute("PRAGMA page_size").fetchone()
        return int(pages) * int(page_bytes)
