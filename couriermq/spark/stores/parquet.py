"""Tables as folders of Parquet that anybody can read as they are.

A batch of a log is a folder that appears by rename; a part is one file that is replaced by rename. Nobody ever sees
half of anything.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pyspark.sql.types import StructType

from couriermq.spark.stores import swapping
from couriermq.spark.stores.base import BATCH, Part
from couriermq.spark.stores.staging import STAGING, clear, draft, join, staged_parts, sync


class ParquetStore:
    """The format that needs nothing else."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # -- logs -------------------------------------------------------------------------------------------------

    def draft(self, table: str) -> Path:
        return draft(self.root, table)

    def add(self, table: str, draft: Path, schema: StructType, batch: int) -> None:
        folder = self._folder(table, batch)
        folder.parent.mkdir(parents=True, exist_ok=True)
        for torn in draft.glob(".*"):  # of a task that was killed and done again
            torn.unlink()
        sync(draft)
        draft.rename(folder)
        sync(folder.parent)

    def has(self, table: str, batch: int) -> bool:
        return self._folder(table, batch).exists()

    def batch_files(self, table: str, batch: int) -> list[Path]:
        return sorted(self._folder(table, batch).glob("*.parquet"))

    def _folder(self, table: str, batch: int) -> Path:
        return self.root / table / f"{BATCH}={batch:08d}"

    # -- parts ------------------------------------------------------------------------------------------------

    def put(
        self, table: str, draft: Path, schema: StructType, by: Sequence[str], parts: Iterable[Part], batch: int
    ) -> None:
        written = dict(staged_parts(draft))
        for part in parts:
            if part not in written:
                self._file(table, part).unlink(missing_ok=True)
                continue
            (file,) = written[part]
            target = self._file(table, part)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
            sync(target.parent)
        clear(draft)

    def part_files(self, table: str, parts: Iterable[Part]) -> dict[Part, list[Path]]:
        files = {part: self._file(table, part) for part in parts}
        return {part: [file] for part, file in files.items() if file.exists()}

    def _file(self, table: str, part: Part) -> Path:
        return self.root / table / part / f"{table.lstrip('_')}.parquet"

    def parts(self, table: str) -> list[Part]:
        base = self.root / table
        return sorted({str(path.parent.relative_to(base)) for path in base.rglob("*.parquet")})

    def done(self, table: str, parts: Iterable[Part], batch: int) -> set[Part]:
        return {part for part in parts if _written_by(self._file(table, part)) >= batch}

    # -- care -------------------------------------------------------------------------------------------------

    def compact(self, table: str) -> tuple[int, int]:
        """Of a log, batches that lie next to each other and are small; parts are one file each already."""
        batches = [sorted(folder.glob("*.parquet")) for folder in sorted((self.root / table).glob(f"{BATCH}=*"))]
        before = sum(map(len, batches))
        groups = list(swapping.small_neighbours(batches))
        if not groups:
            return before, before
        fresh = swapping.linked_copy(self.root / table, self.root / STAGING / f"{table}-compacted")
        for group in groups:
            self._join(table, group, fresh)
        swapping.exchange(self.root / table, fresh)
        clear(fresh)
        return before, sum(1 for _ in (self.root / table).rglob("*.parquet"))

    def _join(self, table: str, group: Sequence[Path], fresh: Path) -> None:
        """The folders of a group become one, named for the last of them."""
        staged = join(self.root, table, group)
        for file in group:
            clear(fresh / file.parent.name)
        staged.rename(fresh / group[-1].parent.name)


def _written_by(file: Path) -> int:
    """The batch that wrote a file, as its footer tells; -1 when there is none."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        footer = pq.read_metadata(file)
    except FileNotFoundError:
        return -1
    column = footer.schema.to_arrow_schema().get_field_index(BATCH)
    return int(footer.row_group(0).column(_leaf(footer, column)).statistics.max) if column >= 0 else -1


def _leaf(footer: "object", column: int) -> int:
    """Where the column's values are: one that is nested counts for several."""
    group = footer.row_group(0)  # type: ignore[attr-defined]
    paths = [group.column(index).path_in_schema for index in range(group.num_columns)]
    return paths.index(BATCH)
