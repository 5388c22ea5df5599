"""Files and folders that a power cut leaves as they are."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_parent(path: Path) -> None:
    with contextlib.suppress(PermissionError):  # a folder may be used by those who may not read the one above it
        sync(path.absolute().parent)


def make_folder(folder: Path, *, mode: int = 0o777) -> None:
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True, mode=mode)
    for each in missing:
        sync_parent(each)


def appear(path: Path, write: Callable[[Path], Any]) -> None:
    """Let a file appear under its name when it is whole and on disk; it then stays."""
    draft = path.with_name(f".{path.name}.part")
    write(draft)
    sync(draft)
    draft.replace(path)
    sync(path.parent)
