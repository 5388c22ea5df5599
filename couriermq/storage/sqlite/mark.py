"""The mark: how far the log was synced, kept in a file of its own.

SQLite takes a damaged frame for the end of its log and silently drops what follows. The mark is compared at the start,
so that such a loss is found. It is written after each sync and before anybody hears of the commit, through a mapping of
the file: that takes no system call and survives the death of the process. The mark itself is synced once a second and
at a stop. After a power cut it may therefore be up to a second old, but it is never ahead of the log.
"""

import mmap
import os
import struct
import sys
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from couriermq.durable import sync
from couriermq.storage.sqlite.connection import DATABASE, PRIVATE_FILE

MARK = f"{DATABASE}-mark"
SYNC_SECONDS = 1.0

_MAGIC = b"CRM1"
_HEAD = struct.Struct("<4sQ?I8sQQQ")
_CRC = struct.Struct("<I")
_SLOT_BYTES = 4_096
"""Two slots are written by turns, each in a sector of its own: one of them is always whole."""

_INDEX_FRAMES = 16
_INDEX_SALT = 32
"""Where SQLite's index of the log holds the number of valid frames (`mxFrame`) and the salt of the log's header; see
"WAL-Index File Format" in its documentation."""


class Position(NamedTuple):
    """Where the log ends: its salt, which changes each time that it starts anew, and its number of frames."""

    salt: bytes
    frames: int


class Progress(NamedTuple):
    """The state of a store at its last sync."""

    number: int
    has_log: bool
    """Whether the log is needed; False while it is cut off or the store is closed."""
    log: Position
    next_offset: int
    next_seq: int
    next_lease: int


NO_LOG = Position(bytes(8), 0)


class Mark:
    """The file, open for writing."""

    def __init__(self, directory: Path) -> None:
        path = directory / MARK
        is_new = not path.exists()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        os.posix_fallocate(self._file, 0, 2 * _SLOT_BYTES)
        if is_new:
            os.fsync(self._file)
            sync(directory)
        self._map = mmap.mmap(self._file, 2 * _SLOT_BYTES)
        self.newest = _newest(self._map) or Progress(0, False, NO_LOG, 0, 0, 0)
        self.is_synced = True

    def advance(self, log: Position, *, next_offset: int, next_seq: int, next_lease: int) -> None:
        """The log is synced up to there."""
        self._put(Progress(self.newest.number + 1, True, log, next_offset, next_seq, next_lease))

    def expect_no_log(self) -> None:
        """The log is about to go; from now on the database alone has to reach as far."""
        self._put(self.newest._replace(number=self.newest.number + 1, has_log=False, log=NO_LOG))
        self.sync()

    def sync(self) -> None:
        self.is_synced = True
        os.fdatasync(self._file)

    def close(self) -> None:
        self._map.close()
        os.close(self._file)

    def _put(self, progress: Progress) -> None:
        number, has_log, log, *numbers = progress
        head = _HEAD.pack(_MAGIC, number, has_log, log.frames, log.salt, *numbers)
        at = number % 2 * _SLOT_BYTES
        self._map[at : at + _HEAD.size + _CRC.size] = head + _CRC.pack(crc32(head))
        self.newest = progress
        self.is_synced = False


def read_mark(directory: Path) -> Progress | None:
    """What the mark says; None if there is none that can be read."""
    try:
        return _newest((directory / MARK).read_bytes())
    except OSError:
        return None


def forget_mark(directory: Path) -> None:
    """The database is about to be replaced or written by somebody other than the server."""
    (directory / MARK).unlink(missing_ok=True)


def read_position(index: bytes | mmap.mmap) -> Position:
    """Where the log ends, by SQLite's index of it."""
    frames = int.from_bytes(index[_INDEX_FRAMES : _INDEX_FRAMES + 4], sys.byteorder)
    return Position(bytes(index[_INDEX_SALT : _INDEX_SALT + 8]), frames)


def _newest(stored: bytes | mmap.mmap) -> Progress | None:
    slots = (_read_slot(bytes(stored[at : at + _HEAD.size + _CRC.size])) for at in (0, _SLOT_BYTES))
    return max((slot for slot in slots if slot is not None), default=None)


def _read_slot(slot: bytes) -> Progress | None:
    if len(slot) < _HEAD.size + _CRC.size:
        return None
    head = slot[: _HEAD.size]
    magic, number, has_log, frames, salt, *numbers = _HEAD.unpack(head)
    if magic != _MAGIC or slot[_HEAD.size :] != _CRC.pack(crc32(head)):
        return None
    return Progress(number, has_log, Position(salt, frames), *numbers)
