"""An export: a folder of Parquet with queues and their messages, as `courier export` writes and `courier import` reads.

export.json                        what is exported, by whom it was begun; written first
messages/<queue>/00000000.parquet  its messages, in order; each file appears whole, and says where the next begins
queues.parquet                     the queues and their settings; written last, so that it means: complete
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from couriermq.cli.client import body_of
from couriermq.cli.exits import Failure
from couriermq.cli.publishing import encoded
from couriermq.durable import appear, make_folder

if TYPE_CHECKING:
    import pyarrow as pa

Json = dict[str, Any]

NOTE, QUEUES, MESSAGES = "export.json", "queues.parquet", "messages"
NEXT = b"courier.next"
"""The key, in a file's metadata, of the place after its last message; empty at the end of a queue."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What an export is of; its `id` is what makes importing it twice the same as importing it once."""

    id: str
    tenant: str
    queues: list[str]
    began_at: int


def message_schema() -> "pa.Schema":
    import pyarrow as pa  # noqa: PLC0415

    text, number = pa.string(), pa.int64()
    return pa.schema(
        [
            ("seq", number), ("message_id", text), ("state", text), ("sent_at", number), ("entered_at", number),
            ("due_at", number), ("discard_at", number), ("attempts", number), ("size", number), ("content_type", text),
            ("attributes", text), ("group", text), ("trace", text), ("death", text), ("body", pa.binary()),
        ]
    )  # fmt: skip


def queue_schema() -> "pa.Schema":
    import pyarrow as pa  # noqa: PLC0415

    names = ("queue", "kind", "settings", "annotations", "aliases")
    return pa.schema([*((name, pa.string()) for name in names), ("message_count", pa.int64())])


class Export:
    """One folder. Nothing in it is changed once it is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def is_complete(self) -> bool:
        return (self.folder / QUEUES).exists()

    def note(self) -> Note | None:
        try:
            return msgspec.json.decode((self.folder / NOTE).read_bytes(), type=Note)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise Failure(f"{self.folder / NOTE} is not what an export begins with: {error}") from None

    def begin(self, note: Note) -> None:
        make_folder(self.folder)
        appear(self.folder / NOTE, lambda draft: draft.write_bytes(msgspec.json.encode(note)))

    # -- messages ---------------------------------------------------------------------------------------------

    def parts(self, queue: str) -> list[Path]:
        return sorted((self.folder / MESSAGES / quote(queue, safe="")).glob("[0-9]*.parquet"))

    def add_part(self, queue: str, messages: Sequence[Json], following: str | None) -> None:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415

        schema = message_schema().with_metadata({NEXT: (following or "").encode()})
        table = pa.Table.from_pylist([_row(message) for message in messages], schema)
        path = self.folder / MESSAGES / quote(queue, safe="") / f"{len(self.parts(queue)):08d}.parquet"
        make_folder(path.parent)
        appear(path, lambda draft: pq.write_table(table, draft, compression="zstd"))

    def place_after(self, queue: str) -> tuple[int, str | None, bool]:
        """How many messages of a queue are there, where the next ones begin, and whether that were all."""
        import pyarrow.parquet as pq  # noqa: PLC0415

        parts = self.parts(queue)
        if not parts:
            return 0, None, False
        count = sum(pq.read_metadata(part).num_rows for part in parts)
        following = (pq.read_schema(parts[-1]).metadata or {}).get(NEXT, b"").decode()
        return count, following or None, not following

    def messages(self, part: Path) -> Iterator[Json]:
        import pyarrow.parquet as pq  # noqa: PLC0415

        with pq.ParquetFile(part) as file:
            for batch in file.iter_batches(1_000):
                yield from batch.to_pylist()

    # -- queues -----------------------------------------------------------------------------------------------

    def finish(self, queues: Sequence[Json], counts: Sequence[int]) -> None:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415

        rows = [
            {
                "queue": queue["name"],
                "kind": queue["kind"],
                "settings": json.dumps(queue["settings"]),
                "annotations": json.dumps(queue["annotations"]),
                "aliases": json.dumps(queue["aliases"]),
                "message_count": count,
            }
            for queue, count in zip(queues, counts, strict=True)
        ]
        table = pa.Table.from_pylist(rows, queue_schema())
        appear(self.folder / QUEUES, lambda draft: pq.write_table(table, draft, compression="zstd"))

    def queues(self) -> list[Json]:
        import pyarrow.parquet as pq  # noqa: PLC0415

        rows: list[Json] = pq.read_table(self.folder / QUEUES).to_pylist()
        return [_queue(row) for row in rows]


def _queue(row: Json) -> Json:
    """A queue with its documents decoded; exports of earlier versions have no aliases."""
    documents = {"aliases": "{}", **row}
    return row | {name: json.loads(documents[name]) for name in ("settings", "annotations", "aliases")}


def _row(message: Json) -> Json:
    kept = {name: message.get(name) for name in message_schema().names}
    return kept | {
        "message_id": message["id"],
        "attributes": json.dumps(message["attributes"]),
        "death": json.dumps(message["death"]) if "death" in message else None,
        "body": body_of(message),
    }


def new_message(row: Json, *, now: int) -> Json:
    """The message of a row as it is sent again: what it still had to wait, and how long it may still be kept."""
    message = {
        "id": row["message_id"],
        "content_type": row["content_type"],
        "attributes": json.loads(row["attributes"]),
        "group": row["group"],
        "delay_ms": max(0, row["due_at"] - now) if row["state"] == "delayed" else 0,
        "retention_ms": max(1, row["discard_at"] - now),
        "body_base64": encoded(row["body"]),
    }
    return {name: value for name, value in message.items() if value is not None}
