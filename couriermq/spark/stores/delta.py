"""Tables as Delta, written by Spark and committed through delta-rs: no jar is needed.

A batch is one commit of a table, which also notes the batch, so that the same batch is never committed twice. Files
are in place before the commit that names them; readers of Delta see them with the commit, all at once.
"""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from couriermq.spark.stores import swapping
from couriermq.spark.stores.base import BATCH, Part
from couriermq.spark.stores.staging import clear, draft, join, staged_parts, sync

APP = "courier-pipeline"


class DeltaStore:
    """Needs the extra `delta`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # -- logs -------------------------------------------------------------------------------------------------

    def draft(self, table: str) -> Path:
        return draft(self.root, table)

    def add(self, table: str, draft: Path, schema: StructType, batch: int) -> None:
        plain = StructType([field for field in schema if field.name != BATCH]).add(BATCH, "string")
        part = _batch_part(batch)
        self._commit(table, plain, [BATCH], {part: sorted(draft.glob("*.parquet"))}, [part], batch)
        clear(draft)

    def has(self, table: str, batch: int) -> bool:
        opened = self._open(table)
        last = opened.transaction_version(APP) if opened is not None else None
        return last is not None and last >= batch

    def batch_files(self, table: str, batch: int) -> list[Path]:
        part = _batch_part(batch)
        return self.part_files(table, [part]).get(part, [])

    # -- parts ------------------------------------------------------------------------------------------------

    def put(
        self, table: str, draft: Path, schema: StructType, by: Sequence[str], parts: Iterable[Part], batch: int
    ) -> None:
        self._commit(table, schema, by, dict(staged_parts(draft)), list(parts), batch)
        clear(draft)

    def part_files(self, table: str, parts: Iterable[Part]) -> dict[Part, list[Path]]:
        wanted = set(parts)
        found: dict[Part, list[Path]] = {}
        for path in self._files(table):
            if _part_of(path) in wanted:
                found.setdefault(_part_of(path), []).append(self.root / table / path)
        return found

    def parts(self, table: str) -> list[Part]:
        return sorted({_part_of(path) for path in self._files(table)})

    def done(self, table: str, parts: Iterable[Part], batch: int) -> set[Part]:
        return set(parts) if self.has(table, batch) else set()

    # -- care -------------------------------------------------------------------------------------------------

    def compact(self, table: str) -> tuple[int, int]:
        """Small batches of a log are put together; files that no version of the last days needs are removed."""
        opened, before = self._open(table), self._files(table)
        if opened is None:
            return 0, 0
        base, parts = self.root / table, groupby(before, _part_of)
        batches = [[base / file for file in files] for part, files in parts if part.startswith(f"{BATCH}=")]
        for group in swapping.small_neighbours(batches):
            self._join(table, opened, group)
        opened.vacuum(dry_run=False)
        opened.create_checkpoint()
        return len(before), len(self._files(table))

    def _join(self, table: str, opened: DeltaTable, group: Sequence[Path]) -> None:
        """The files of a group become one, in the folder of the last of them."""
        first, last = (path.parent.name for path in (group[0], group[-1]))
        staged = join(self.root, table, group)
        (file,) = staged.glob("*.parquet")
        name = f"{last.partition('=')[2]}-from-{first.partition('=')[2]}.parquet"
        added = self._move(table, last, file, name, is_new=False)
        old = (path.relative_to(self.root / table).as_posix() for path in group)
        removed = [self._removal(table, path, added.modification_time, is_new=False) for path in old]
        opened.create_write_transaction([added, *removed], "append", opened.schema(), [BATCH])
        clear(staged)

    # -- the log ----------------------------------------------------------------------------------------------

    def _open(self, table: str) -> DeltaTable | None:
        path = str(self.root / table)
        return DeltaTable(path) if DeltaTable.is_deltatable(path) else None

    def _files(self, table: str) -> list[str]:
        """Paths below the table's folder."""
        opened = self._open(table)
        if opened is None:
            return []
        base = f"{(self.root / table).as_posix()}/"
        return sorted(unquote(uri).removeprefix("file://").removeprefix(base) for uri in opened.file_uris())

    def _commit(
        self,
        table: str,
        schema: StructType,
        by: Sequence[str],
        written: Mapping[Part, Sequence[Path]],
        parts: Sequence[Part],
        batch: int,
    ) -> None:
        opened = self._open(table) or self._create(table, schema, by)
        _widen(opened, schema)
        old = [path for path in self._files(table) if _part_of(path) in set(parts)]
        added = [
            self._move(table, part, file, f"{batch:08d}-{file.stem.split('-')[1]}.parquet")
            for part, files in written.items()
            for file in files
        ]
        now = max((action.modification_time for action in added), default=0)
        removed = [self._removal(table, path, now) for path in old]
        opened.create_write_transaction(
            [*added, *removed],
            mode="append",
            schema=_delta_schema(schema),
            partition_by=list(by),
            commit_properties=CommitProperties(app_transactions=[Transaction(APP, batch)]),
        )

    def _create(self, table: str, schema: StructType, by: Sequence[str]) -> DeltaTable:
        return DeltaTable.create(str(self.root / table), schema=_delta_schema(schema), partition_by=list(by))

    def _move(self, table: str, part: Part, file: Path, name: str, *, is_new: bool = True) -> AddAction:
        """A file under a name of its own: what a killed batch has left there is overwritten or never named."""
        folder = self.root / table / part
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / name
        shutil.move(file, target)
        sync(folder)
        facts = target.stat()
        rows = {"numRecords": _row_count(target)}
        return AddAction(
            path=f"{part}/{target.name}",
            size=facts.st_size,
            partition_values=_values(part),
            modification_time=facts.st_mtime_ns // 1_000_000,
            data_change=is_new,
            stats=json.dumps(rows),
        )

    def _removal(self, table: str, path: str, now: int, *, is_new: bool = True) -> RemoveAction:
        """The file stays for those who read an older version, until it is vacuumed."""
        size = (self.root / table / path).stat().st_size
        values = _values(_part_of(path))
        return RemoveAction(path=path, data_change=is_new, deletion_timestamp=now, size=size, partition_values=values)


def _batch_part(batch: int) -> Part:
    return f"{BATCH}={batch:08d}"


def _part_of(path: str) -> Part:
    return path.rpartition("/")[0]


def _values(part: Part) -> dict[str, str | None]:
    pairs = (folder.partition("=") for folder in part.split("/"))
    return {name: value for name, _, value in pairs}


def _row_count(file: Path) -> int:
    import pyarrow.parquet as pq  # noqa: PLC0415

    return int(pq.read_metadata(file).num_rows)


def _delta_schema(schema: StructType) -> DeltaSchema:
    return DeltaSchema.from_arrow(to_arrow_schema(schema, timezone="UTC"))


def _widen(table: DeltaTable, schema: StructType) -> None:
    """Columns that are new are added to the table; older rows have none."""
    known = {field.name for field in table.schema().fields}
    fresh: list[Any] = [field for field in _delta_schema(schema).fields if field.name not in known]
    if fresh:
        table.alter.add_columns(fresh)
