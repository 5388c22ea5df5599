"""The receipt of `courier erase`: on disk before the first change and after each one, so that a kill hides none."""

import shutil
import time
from pathlib import Path
from typing import Any

import msgspec

from couriermq.cli.exits import usage
from couriermq.durable import appear, make_folder


class Receipt(msgspec.Struct, kw_only=True):
    """What was removed, and what could not be yet. It names no message: only the hash of what was asked for."""

    erased_at: int
    store: str
    tenant: str
    queue: str | None
    asked_sha256: str
    complete: bool = False
    seqs: list[int] = msgspec.field(default_factory=list)
    live_removed: int = 0
    """Messages that were still in a queue."""
    archive: list[Any] = msgspec.field(default_factory=list)
    tables: dict[str, list[Any]] = msgspec.field(default_factory=dict)
    pending_offsets: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """Events that the journal has not sealed yet."""
    replays: list[str] = msgspec.field(default_factory=list)
    """Unfinished replays, which hold messages of their own."""
    ids_sha256: list[str] = msgspec.field(default_factory=list)
    """While it is not complete: by these the next run finds copies of messages that have lost their id already."""

    def add(self, earlier: "Receipt") -> None:
        """Go on with an erasure that was not finished."""
        self.erased_at = min(self.erased_at, earlier.erased_at)
        self.seqs = sorted({*self.seqs, *earlier.seqs})
        self.live_removed += earlier.live_removed
        self.archive += earlier.archive
        for table, files in earlier.tables.items():
            self.tables.setdefault(table, []).extend(files)
        self.pending_offsets += earlier.pending_offsets
        self.ids_sha256 = sorted({*self.ids_sha256, *earlier.ids_sha256})

    def is_same(self, other: "Receipt") -> bool:
        mine, theirs = ((one.store, one.tenant, one.queue, one.asked_sha256) for one in (self, other))
        return mine == theirs


def begin(receipt: Receipt, given: Path | None, folder: Path) -> Path:
    """Write the receipt, with what unfinished runs of the same erasure have done; returns where it is."""
    path = (given or folder / f"{receipt.erased_at}.json").resolve()
    if path.exists() and not path.is_file():
        raise usage(f"{given} is no file; the receipt cannot take its place")
    if (other := _read(path)) is not None and not other.complete and not other.is_same(receipt):
        raise usage(f"{given} is the receipt of another erasure, which is not finished; name another file")
    unfinished = []
    for one in sorted({path, *folder.resolve().glob("*.json")}):
        earlier = _read(one)
        if earlier is not None and not earlier.complete and earlier.is_same(receipt):
            receipt.add(earlier)
            unfinished.append(one)
    if given is None and unfinished:
        path = unfinished[0]
    elif unfinished and path not in unfinished:
        make_folder(path.parent)
        shutil.move(unfinished.pop(0), path)  # before it is written: two of them would be counted twice
    write(receipt, path)
    for one in unfinished:
        if one != path:
            one.unlink()
    return path


def _read(path: Path) -> Receipt | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Receipt)
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


class Note:
    """Keeps the receipt on disk up to date."""

    PAUSE_S = 2.0
    """How long a change of one file may be missing: a large receipt takes as long to write as the file."""

    def __init__(self, receipt: Receipt, path: Path) -> None:
        self._receipt = receipt
        self._path = path
        self._written_s = time.monotonic()

    def now(self) -> None:
        write(self._receipt, self._path)
        self._written_s = time.monotonic()

    def soon(self) -> None:
        if time.monotonic() - self._written_s >= self.PAUSE_S:
            self.now()


def write(receipt: Receipt, path: Path) -> None:
    make_folder(path.parent)
    appear(path, lambda draft: draft.write_bytes(msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n"))
