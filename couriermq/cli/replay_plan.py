"""What a replay sends, written down in the lake: found once, sent portion by portion, remembered when it is done."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from couriermq.cli.publishing import encoded, portions
from couriermq.durable import appear, sync, sync_parent

Json = dict[str, Any]

REPLAYS = "_replays"
NOTE = "replay.json"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages, and where to; two orders that are the same are one replay."""

    table: str
    where: str
    tenant: str
    queue: str
    """The queue's id."""
    name: str

    @property
    def id(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:24]


class Note(msgspec.Struct, kw_only=True):
    order: Order
    count: int
    portion: int
    finished_at: int | None = None


class Plan:
    """One folder of the lake, which appears whole."""

    def __init__(self, root: Path, order: Order) -> None:
        self.order = order
        self._folder = root / REPLAYS / order.id
        self._note = self._read()

    def _read(self) -> Note | None:
        try:
            return msgspec.json.decode((self._folder / NOTE).read_bytes(), type=Note)
        except FileNotFoundError:
            return None

    @property
    def series(self) -> str:
        return f"replay-{self.order.id}"

    @property
    def is_written(self) -> bool:
        return self._note is not None

    @property
    def finished_at(self) -> int | None:
        return self._note.finished_at if self._note else None

    @property
    def count(self) -> int:
        assert self._note is not None
        return self._note.count

    @property
    def portion(self) -> int:
        """How many messages appear together; fixed when the plan was written, so that numbers keep their meaning."""
        assert self._note is not None
        return self._note.portion

    def describe(self) -> Json:
        described: Json = msgspec.to_builtins(self._note)
        return described

    def write(self, fill: Callable[[Path], None], *, portion: int) -> None:
        """Have the messages written into a hidden folder, and let it appear.

        All of it is on disk then: the server remembers portions by number, which mean nothing without this list.
        """
        hidden = self._folder.with_name(f".{self._folder.name}.part")
        shutil.rmtree(hidden, ignore_errors=True)
        fill(hidden)
        count = sum(_row_count(path) for path in _files(hidden))
        (hidden / NOTE).write_bytes(msgspec.json.encode(Note(order=self.order, count=count, portion=portion)))
        for written in (*hidden.iterdir(), hidden):
            sync(written)
        hidden.rename(self._folder)
        for folder in (self._folder, self._folder.parent):
            sync_parent(folder)
        self._note = self._read()

    def portions(self, *, after: int) -> Iterator[tuple[int, list[Json]]]:
        """Numbered portions, those up to number `after` left out."""
        for number, rows in enumerate(portions(self._rows(), self.portion), start=1):
            if number > after:
                yield number, [_message(row) for row in rows]

    def _rows(self) -> Iterator[Json]:
        import pyarrow.parquet as pq  # noqa: PLC0415

        for path in _files(self._folder):
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(self.portion):
                    yield from batch.to_pylist()

    def finish(self, at: int) -> None:
        """Remember that it was done; the messages are not needed any more."""
        assert self._note is not None
        self._note.finished_at = at
        done = msgspec.json.encode(self._note)
        appear(self._folder / NOTE, lambda draft: draft.write_bytes(done))
        for path in self._folder.glob("*"):
            if path.name != NOTE:
                path.unlink()


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def _row_count(path: Path) -> int:
    import pyarrow.parquet as pq  # noqa: PLC0415

    return int(pq.read_metadata(path).num_rows)


def _message(row: Json) -> Json:
    message = {
        "id": row["message_id"],
        "content_type": row["content_type"],
        "attributes": json.loads(row["attributes"]) if row["attributes"] else None,
        "group": row["group"],
        "body_base64": encoded(row["body"]),
    }
    return {field: value for field, value in message.items() if value is not None}
