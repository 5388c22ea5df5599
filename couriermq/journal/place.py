"""Where segments are kept: a folder of this machine, or whatever a URL of pyarrow's filesystems leads to."""

import contextlib
import os
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

SUFFIX = ".parquet"
_HIDDEN = ".part"
"""The end of the name of a file that is still being written; such names also begin with a dot, as readers expect."""
LOST = "_lost"
"""The folder of segments that belong to the lost end of an earlier incarnation."""
NO_FOLDERS = {"s3", "gcs", "abfs"}
"""Stores that have no folders to make. A move is a copy there, and an object appears once it is complete."""


class Draft(Protocol):
    """A file in the making, which nobody sees yet."""

    sink: Any
    """What pyarrow writes Parquet to."""

    def publish(self, name: str) -> int:
        """Make it durable, then let it appear under its name; returns its size."""

    def abandon(self) -> None: ...


class Place(Protocol):
    """Holds files by name; a file appears once, complete and durable. Every method may block."""

    def list(self) -> list[tuple[str, int]]:
        """Names and sizes of the segments that are there."""

    def sweep(self) -> None:
        """Clear away what a crash left half done; only for whoever writes here now."""

    def create(self, working_name: str) -> Draft: ...

    def open(self, name: str) -> Any:
        """Something that pyarrow reads Parquet from; raises FileNotFoundError."""

    def delete(self, name: str) -> None: ...

    def set_aside(self, name: str) -> None:
        """Move a file into the folder `_lost`, where no reader looks."""

    def read_note(self, name: str) -> bytes | None:
        """A small file that is no segment; None where there is none."""

    def write_note(self, name: str, content: bytes) -> None: ...


def place_of(where: str) -> Place:
    """The place that a path or a URL names."""
    parts = urlsplit(where)
    if parts.scheme == "file":
        return LocalPlace(Path(unquote(parts.path)))
    return RemotePlace(where) if "://" in where else LocalPlace(Path(where))


class LocalPlace:
    """A folder. pyarrow is not needed to look into it, so a server starts without."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        return str(self.folder)

    def list(self) -> list[tuple[str, int]]:
        self._make()
        return [(entry.name, entry.stat().st_size) for entry in os.scandir(self.folder) if _is_segment(entry.name)]

    def sweep(self) -> None:
        """A crash may have come before what is listed, or the folder itself, was sure to stay: see to that as well."""
        self._make()
        for torn in self.folder.glob(f".*{_HIDDEN}"):
            torn.unlink(missing_ok=True)
        _sync(self.folder)
        _sync_parent(self.folder)

    def _make(self) -> None:
        missing = [each for each in (self.folder, *self.folder.parents) if not each.exists()]
        self.folder.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            _sync_parent(folder)

    def create(self, working_name: str) -> Draft:
        return _LocalDraft(self.folder, f".{working_name}{_HIDDEN}")

    def open(self, name: str) -> Any:
        import pyarrow as pa  # noqa: PLC0415

        return pa.OSFile(str(self.folder / name))

    def delete(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def set_aside(self, name: str) -> None:
        (self.folder / LOST).mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            (self.folder / name).replace(self.folder / LOST / name)

    def read_note(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def write_note(self, name: str, content: bytes) -> None:
        self._make()
        hidden = self.folder / f".{name}{_HIDDEN}"
        hidden.write_bytes(content)
        _sync(hidden)
        hidden.replace(self.folder / name)
        _sync(self.folder)


class _LocalDraft:
    def __init__(self, folder: Path, hidden: str) -> None:
        import pyarrow as pa  # noqa: PLC0415

        self._hidden = folder / hidden
        self.sink = pa.OSFile(str(self._hidden), "wb")

    def publish(self, name: str) -> int:
        self.sink.close()
        _sync(self._hidden)
        final = self._hidden.replace(self._hidden.with_name(name))
        _sync(final.parent)
        return final.stat().st_size

    def abandon(self) -> None:
        self._hidden.unlink(missing_ok=True)


def _sync_parent(folder: Path) -> None:
    with contextlib.suppress(PermissionError):  # a folder may be used by those who may not read the one above it
        _sync(folder.absolute().parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_segment(name: str) -> bool:
    return name.endswith(SUFFIX) and not name.startswith(".")


class RemotePlace:
    """What pyarrow opens: `s3://bucket/folder`, `gs://…`, `abfs://…`, `hdfs://…`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: tuple[Any, str] | None = None

    def __str__(self) -> str:
        return self._url

    @property
    def _files(self) -> tuple[Any, str]:
        from pyarrow.fs import FileSystem  # noqa: PLC0415

        if self._opened is None:
            self._opened = FileSystem.from_uri(self._url)
        return self._opened

    def _path(self, name: str) -> str:
        return f"{self._files[1].rstrip('/')}/{name}"

    def list(self) -> list[tuple[str, int]]:
        from pyarrow.fs import FileSelector  # noqa: PLC0415

        files, base = self._files
        found = files.get_file_info(FileSelector(base, allow_not_found=True))
        return [(info.base_name, info.size) for info in found if _is_segment(info.base_name)]

    def sweep(self) -> None:
        from pyarrow.fs import FileSelector  # noqa: PLC0415

        files, base = self._files
        for info in files.get_file_info(FileSelector(base, allow_not_found=True)):
            if info.base_name.endswith(_HIDDEN):
                with contextlib.suppress(FileNotFoundError):
                    files.delete_file(info.path)

    def create(self, working_name: str) -> Draft:
        files, base = self._files
        if files.type_name not in NO_FOLDERS:
            files.create_dir(base, recursive=True)
        return _RemoteDraft(files, base.rstrip("/"), f".{working_name}{_HIDDEN}")

    def open(self, name: str) -> Any:
        return self._files[0].open_input_file(self._path(name))

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files[0].delete_file(self._path(name))

    def set_aside(self, name: str) -> None:
        files, _ = self._files
        if files.type_name not in NO_FOLDERS:
            files.create_dir(self._path(LOST), recursive=True)
        with contextlib.suppress(FileNotFoundError):
            files.move(self._path(name), self._path(f"{LOST}/{name}"))

    def read_note(self, name: str) -> bytes | None:
        try:
            with self._files[0].open_input_stream(self._path(name)) as source:
                return bytes(source.read())
        except FileNotFoundError:
            return None

    def write_note(self, name: str, content: bytes) -> None:
        files, base = self._files
        if files.type_name not in NO_FOLDERS:
            files.create_dir(base, recursive=True)
        with files.open_output_stream(self._path(name)) as sink:
            sink.write(content)


class _RemoteDraft:
    def __init__(self, files: Any, base: str, hidden: str) -> None:
        self._files = files
        self._base = base
        self._hidden = f"{base}/{hidden}"
        self.sink = files.open_output_stream(self._hidden)

    def publish(self, name: str) -> int:
        self.sink.close()
        final = f"{self._base}/{name}"
        self._files.move(self._hidden, final)
        return int(self._files.get_file_info(final).size)

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self._files.delete_file(self._hidden)
