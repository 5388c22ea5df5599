"""Few large files in place of many small ones: which of them are put together, and folders that change places."""

import ctypes
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

AT_FDCWD = -100
RENAME_EXCHANGE = 2


SMALL_BYTES = 64 * 1024 * 1024
"""Batches of a log are put together until they have so much."""


def small_neighbours(batches: Sequence[Sequence[Path]], most_bytes: int = SMALL_BYTES) -> Iterator[list[Path]]:
    """The files of each run of batches that together stay below `most_bytes`, where they are more than one.

    A batch that has more than that by itself stays as it is. So does the newest batch: if it was not committed it is
    done again, and must find its own rows.
    """
    group: list[Path] = []
    size = 0
    for files in batches[:-1]:
        own = sum(file.stat().st_size for file in files)
        if size + own > most_bytes:
            if len(group) > 1:
                yield group
            group, size = [], 0
        if own <= most_bytes:
            group += files
            size += own
    if len(group) > 1:
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
