"""Which of Courier's folders and files other users of the machine can read, and the command that closes them."""

import shlex
import stat
from pathlib import Path
from typing import NamedTuple

from couriermq.config import Settings
from couriermq.journal.place import LocalPlace, place_of
from couriermq.storage.sqlite.connection import DATABASE


class OpenToOthers(NamedTuple):
    """A path whose permissions are wider than the setting `umask` allows."""

    path: Path
    command: str

    @property
    def sentence(self) -> str:
        return f"other users can read {self.path}; run `{self.command}`, or set umask if they are meant to"


def open_to_others(settings: Settings) -> list[OpenToOthers]:
    """The data directory, and what is not protected by it: the database, the archive and the lake."""
    closed = not _excess(settings.data, settings.umask_bits)
    found = [] if closed else [_finding(settings.data, settings.umask_bits)]
    for path in _outside(settings) if closed else [*_outside(settings), settings.data / DATABASE]:
        umask = 0o077 if path.name == DATABASE else settings.umask_bits
        if _excess(path, umask):
            found.append(_finding(path, umask))
    return found


def _outside(settings: Settings) -> list[Path]:
    """Folders of this machine that the permissions of the data directory do not protect."""
    archive = place_of(settings.archive) if settings.archive and settings.archive_enabled else None
    folders = [settings.lake_place, *([archive.folder] if isinstance(archive, LocalPlace) else [])]
    return [folder for folder in folders if not folder.absolute().is_relative_to(settings.data.absolute())]


def _excess(path: Path, umask: int) -> int:
    """Permission bits that the path has and should not have; 0 where there is no such path."""
    try:
        return stat.S_IMODE(path.stat().st_mode) & umask & 0o077
    except OSError:
        return 0


def _finding(path: Path, umask: int) -> OpenToOthers:
    whole = 0o777 if path.is_dir() else 0o666
    return OpenToOthers(path, f"chmod {whole & ~umask:03o} {shlex.quote(str(path))}")
