"""A disk that forgets: every write of SQLite and of the mark is recorded, and a power cut keeps only what was synced.

SQLite's own file system layer is wrapped through ctypes, in the library that Python's sqlite3 uses, so that the engine
runs as it is: no compiler and no other SQLite is needed. Of what was written to a file since its last sync, a power cut
keeps any sectors, in any order.
"""

import _sqlite3
import ctypes
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from couriermq.storage.sqlite.mark import MARK, Mark

SECTOR = 512
FILES = ("courier.db", "courier.db-wal", MARK)

_XOPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))
_XWRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_XTRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_XSYNC = CFUNCTYPE(c_int, c_void_p, c_int)


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`."""

    _fields_ = (("iVersion", c_int), ("methods", c_void_p * 18))


_WRITE, _TRUNCATE, _SYNC = 2, 3, 4
"""Indexes among the methods."""


class _Vfs(ctypes.Structure):
    """The beginning of `sqlite3_vfs`."""

    _fields_ = (
        ("iVersion", c_int), ("szOsFile", c_int), ("mxPathname", c_int), ("pNext", c_void_p), ("zName", c_char_p),
        ("pAppData", c_void_p), ("xOpen", c_void_p),
    )  # fmt: skip


class Operation(NamedTuple):
    """What happened to a file, or, without one, what a caller was told."""

    file: str | None
    kind: str
    at: int = 0
    data: Any = b""


class Recorder:
    """Everything that happens to the files of one directory, in its order."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []
        """Structures and callbacks that SQLite may still call."""
        self._copies: dict[int, _Methods] = {}

    def tell(self, what: str, *data: object) -> None:
        self.operations.append(Operation(None, what, 0, data))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """While inside, files that are opened are recorded."""
        library = ctypes.CDLL(_sqlite3.__file__)
        library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        vfs = library.sqlite3_vfs_find(None).contents
        original = vfs.xOpen
        xopen = _XOPEN(original)

        def opened(vfs_: int, path: int | None, file: int, flags: int, out: Any) -> int:
            code: int = xopen(vfs_, path, file, flags, out)  # SQLite keeps the path, and more stands behind its end
            name = Path(ctypes.string_at(path).decode()).name if path else ""
            if code == 0 and name in FILES:
                self._names[file] = name
                self._wrap(file)
            return code

        callback = _XOPEN(opened)
        self._kept.append(callback)
        vfs.xOpen = ctypes.cast(callback, c_void_p).value
        try:
            with patch.object(Mark, "_put", self._put_mark), patch.object(Mark, "sync", self._sync_mark):
                yield
        finally:
            vfs.xOpen = original

    def sync(self, descriptor: int) -> None:
        """The engine's own sync of the log; nothing has to reach the real disk."""
        self.operations.append(Operation("courier.db-wal", "sync"))

    def _wrap(self, file: int) -> None:
        """Have a file's methods replaced by ones that record."""
        place = c_void_p.from_address(file)  # pMethods is the first field of a file
        address = place.value
        assert address is not None
        if address not in self._copies:
            self._copies[address] = self._copy_of(_Methods.from_address(address))
        place.value = ctypes.addressof(self._copies[address])

    def _copy_of(self, real: _Methods) -> _Methods:
        copy = _Methods.from_buffer_copy(real)
        write, truncate, sync = (
            kind(real.methods[index]) for kind, index in ((_XWRITE, _WRITE), (_XTRUNCATE, _TRUNCATE), (_XSYNC, _SYNC))
        )

        def on_write(file: int, data: int, count: int, at: int) -> int:
            self.operations.append(Operation(self._names[file], "write", at, ctypes.string_at(data, count)))
            return int(write(file, data, count, at))

        def on_truncate(file: int, size: int) -> int:
            self.operations.append(Operation(self._names[file], "truncate", size))
            return int(truncate(file, size))

        def on_sync(file: int, flags: int) -> int:
            self.operations.append(Operation(self._names[file], "sync"))
            return 0

        for index, kind, callback in (
            (_WRITE, _XWRITE, on_write), (_TRUNCATE, _XTRUNCATE, on_truncate), (_SYNC, _XSYNC, on_sync),
        ):  # fmt: skip
            pointer = kind(callback)
            self._kept += [pointer, callback]
            copy.methods[index] = ctypes.cast(pointer, c_void_p).value
        self._kept += [copy, write, truncate, sync]
        return copy

    @property
    def _put_mark(self) -> Callable[..., None]:
        put, operations = Mark._put, self.operations

        def recorded(mark: Mark, progress: Any) -> None:
            put(mark, progress)
            at = progress.number % 2 * 4_096
            operations.append(Operation(MARK, "write", at, bytes(mark._map[at : at + SECTOR])))

        return recorded

    @property
    def _sync_mark(self) -> Callable[..., None]:
        operations = self.operations

        def recorded(mark: Mark) -> None:
            mark.is_synced = True
            operations.append(Operation(MARK, "sync"))

        return recorded


def after_power_cut(operations: list[Operation], dice: random.Random) -> dict[str, bytes]:
    """What a disk may hold of each file after these operations."""
    durable: dict[str, bytearray] = {name: bytearray() for name in FILES}
    pending: dict[str, list[Operation]] = {name: [] for name in FILES}
    for operation in operations:
        if operation.file is None:
            continue
        if operation.kind == "sync":
            for done in pending[operation.file]:
                _apply(durable[operation.file], done)
            pending[operation.file] = []
        else:
            pending[operation.file].append(operation)
    for name, left in pending.items():
        for operation in _survivors(left, dice):
            _apply(durable[name], operation)
    return {name: bytes(stored) for name, stored in durable.items()}


def _survivors(left: list[Operation], dice: random.Random) -> list[Operation]:
    """Of unsynced operations the first ones, or any: whole, or some of their sectors."""
    if dice.random() < 0.3:
        return left[: dice.randint(0, len(left))]
    share = dice.choice((0.05, 0.5, 0.95))
    kept = []
    for operation in left:
        if operation.kind == "truncate":
            kept += [operation] if dice.random() < share else []
            continue
        begin, end = operation.at, operation.at + len(operation.data)
        for first in range(begin // SECTOR * SECTOR, end, SECTOR):
            if dice.random() < share:
                low, high = max(first, begin), min(first + SECTOR, end)
                kept.append(Operation(operation.file, "write", low, operation.data[low - begin : high - begin]))
    return kept


def _apply(stored: bytearray, operation: Operation) -> None:
    if operation.kind == "truncate":
        del stored[operation.at :]
        stored.extend(bytes(operation.at - len(stored)))
        return
    end = operation.at + len(operation.data)
    stored.extend(bytes(max(0, end - len(stored))))
    stored[operation.at : end] = operation.data
