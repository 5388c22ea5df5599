"""The lake's tables as anybody may read them: folders of Parquet, opened by pyarrow, without Spark.

The pipeline replaces files whole while somebody reads. A file that has gone since it was listed has been replaced by
others, so the table is listed and read again.
"""

import json
import logging
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from couriermq.lake import delta

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

T = TypeVar("T")
log = logging.getLogger(__name__)

EVENTS, MESSAGES, QUEUE_MINUTES = "events", "messages", "queue_minutes"
LISTENER_MINUTES, DEAD_LETTERS, TENANT_USAGE = "listener_minutes", "dead_letters", "tenant_usage"
TABLES = (EVENTS, MESSAGES, QUEUE_MINUTES, LISTENER_MINUTES, DEAD_LETTERS, TENANT_USAGE)

QUEUE_ID = "queue_id"
"""A column that tables of an earlier version may lack, and that is asked for all the same."""

CHECKPOINT = "_checkpoint"
DELTA_LOG = "_delta_log"
HIDDEN = ("_", ".")
"""How the names of files and folders begin that are not for readers."""
TRIES = 5


class Freshness(msgspec.Struct, frozen=True):
    """The last batch that is in every table, and the offset, of each lane of the journal, up to which it goes."""

    batch: int
    offsets: dict[str, int]
    store: str | None = None
    """Of which store and incarnation; none where the batch is from before that was noted."""


class Within(msgspec.Struct, frozen=True):
    """Rows whose instant `column` lies between `start` and, not included, `end`, in epoch milliseconds."""

    column: str
    start: int | None = None
    end: int | None = None

    def expression(self, schema: "pa.Schema") -> "pc.Expression | None":
        """The same as pyarrow asks it; an instant has the type that the file's writer chose."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        def instant(at: int) -> pa.Scalar:
            return pa.scalar(at, pa.timestamp("ms", "UTC")).cast(schema.field(self.column).type)

        terms = [] if self.start is None else [pc.field(self.column) >= instant(self.start)]
        terms += [] if self.end is None else [pc.field(self.column) < instant(self.end)]
        return reduce(and_, terms) if terms else None


class Lake:
    """Tables below one folder; any of them may not be there yet."""

    def __init__(self, root: Path, *, stamp: Callable[[], str] | None = None) -> None:
        """With `stamp`, which tells what store and incarnation there is, tables of another one do not count."""
        self.root = root
        self._stamp = stamp
        self._refused: str | None = None

    def has(self, table: str) -> bool:
        return bool(self.files(table))

    def files(self, table: str, *, since_day: str = "") -> list[Path]:
        """The files that a table consists of; of one with a folder for each day, those of `since_day` and later."""
        folder = self.root / table
        found = delta.files_of(folder) if (folder / DELTA_LOG).is_dir() else _parquet_files(folder)
        return [path for path in found if not since_day or (_folder_day(path) or since_day) >= since_day]

    def read(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        where: "pc.Expression | None" = None,
        within: "Within | None" = None,
        since_day: str = "",
    ) -> "pa.Table":
        """Rows of a table that `where` holds for, `within` a stretch of time; a column that no file has is null."""
        return _persistently(lambda: _read(self.files(table, since_day=since_day), columns, where, within))

    def days(self, table: str) -> list[str]:
        """The days that a table has folders of."""
        return sorted({day for path in self.files(table) if (day := _folder_day(path)) is not None})

    def freshness(self) -> Freshness | None:
        """Up to where all tables are complete; None when no batch has been finished."""
        fresh = _persistently(lambda: _last_commit(self.root / CHECKPOINT))
        if fresh is None or fresh.store is None or self._stamp is None or fresh.store == self._stamp():
            return fresh
        if self._refused != fresh.store:
            self._refused = fresh.store
            log.warning(
                "the tables in %s are of another incarnation or store (%s, and this is %s) and are not used: make them"
                " anew with `courier pipeline rebuild`", self.root, fresh.store, self._stamp(),
            )  # fmt: skip
        return None


def _persistently(read: Callable[[], T]) -> T:
    for _ in range(TRIES - 1):
        try:
            return read()
        except FileNotFoundError:
            continue
    return read()


def _parquet_files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(HIDDEN))
        found += (Path(place, name) for name in sorted(names) if _is_data(name))
    return found


def _is_data(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(HIDDEN)


def _folder_day(path: Path) -> str | None:
    return next((part[4:] for part in path.parts if part.startswith("day=")), None)


def _read(
    files: Sequence[Path], columns: Sequence[str] | None, where: "pc.Expression | None", within: Within | None
) -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.dataset as ds  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    if not files:
        return pa.table({name: pa.nulls(0) for name in columns or ()})
    # Columns are only ever added, so the file that was written last has them all.
    schema = pq.read_schema(max(files, key=lambda path: path.stat().st_mtime_ns))
    if QUEUE_ID not in schema.names:
        schema = schema.append(pa.field(QUEUE_ID, pa.string()))
    terms = [term for term in (where, within and within.expression(schema)) if term is not None]
    present = [name for name in schema.names if columns is None or name in columns]
    rows = ds.dataset([str(path) for path in files], schema=schema, format="parquet").to_table(
        present, filter=reduce(and_, terms) if terms else None
    )
    for name in columns or ():
        if name not in present:
            rows = rows.append_column(name, pa.nulls(rows.num_rows))
    return rows if columns is None else rows.select(list(columns))


def _last_commit(checkpoint: Path) -> Freshness | None:
    """What Spark has noted: `commits/N` says that batch N is done, the last line of `offsets/N` where it ended."""
    done = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*") if path.name.isdecimal()]
    if not done:
        return None
    batch = max(done)
    *_, ended = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    kept = json.loads(ended)
    store = kept.pop("store", None)
    return Freshness(batch, {lane.replace("offset", "0"): offset for lane, offset in kept.items()}, store)


def day_of(at: int) -> str:
    """The day of an instant, in UTC, as folders are named."""
    return f"{datetime.fromtimestamp(at / 1_000, tz=UTC):%Y-%m-%d}"


def start_of_day(day: str) -> int:
    return round(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1_000)


def in_ms(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Instants as epoch milliseconds, whatever type their writer chose."""
    import pyarrow as pa  # noqa: PLC0415

    if not pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
