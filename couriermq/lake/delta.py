"""Tables of Delta, without Spark: the files that they consist of, and others put in their place."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote


def files_of(folder: Path) -> list[Path]:
    """The files of the newest version."""
    return [folder / name for name in sorted(_names(_open(folder)))]


def replace(folder: Path, fresh: Mapping[Path, Path]) -> None:
    """Put each file's fresh one in its place, all in one version, and keep none of the older versions' files."""
    import pyarrow.parquet as pq  # noqa: PLC0415
    from deltalake.transaction import AddAction, RemoveAction  # noqa: PLC0415

    table = _open(folder)
    actions: list[Any] = []
    for old, new in fresh.items():
        facts, values = new.stat(), _values(folder, new)
        instant = facts.st_mtime_ns // 1_000_000
        rows = f'{{"numRecords":{pq.read_metadata(new).num_rows}}}'
        name, gone = (path.relative_to(folder).as_posix() for path in (new, old))
        actions.append(AddAction(name, facts.st_size, values, instant, data_change=True, stats=rows))
        actions.append(RemoveAction(gone, True, instant, partition_values=values, size=old.stat().st_size))
    table.create_write_transaction(actions, "append", table.schema(), table.metadata().partition_columns)
    forget(folder)


def forget(folder: Path) -> None:
    """Remove every file that the newest version does not need, those of batches that never became one as well."""
    _open(folder).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)


def _open(folder: Path) -> Any:
    from deltalake import DeltaTable  # noqa: PLC0415 - an extra that only tables of this format need

    return DeltaTable(str(folder))


def _names(table: Any) -> Iterator[str]:
    """Paths below the table's folder."""
    for name in table.get_add_actions().column("path").to_pylist():
        yield unquote(name)


def _values(folder: Path, file: Path) -> dict[str, str | None]:
    """What the names of the folders that a file is in say."""
    pairs = (name.partition("=") for name in file.parent.relative_to(folder).parts)
    return {name: value for name, _, value in pairs}
