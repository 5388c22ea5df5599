"""A folder with fewer, larger files in place of the same folder with many small ones, in one step."""

import ctypes
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

AT_FDCWD = -100
RENAME_EXCHANGE = 2


def small_neighbours(folders: Sequence[Path], most_bytes: int) -> Iterator[list[Path]]:
    """Runs of folders that together stay below `most_bytes`."""
    group: list[Path] = []
    size = 0
    for folder in folders:
        own = sum(file.stat().st_size for file in folder.glob("*.parquet"))
        if group and size + own > most_bytes:
            yield group
            group, size = [], 0
        group.append(folder)
        size += own
    if group:
        yield group


def linked_copy(source: Path, target: Path) -> Path:
    """The same files under another folder, without copying them."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)
    return target


def exchange(one: Path, other: Path) -> None:
    """Give two folders each other's name. Where the system cannot do it in one step, there is a moment without."""
    library = ctypes.CDLL(None, use_errno=True)
    swap = getattr(library, "renameat2", None)
    if swap is not None and not swap(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE):
        return
    aside = other.with_name(f"{other.name}-aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
