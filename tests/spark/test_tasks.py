"""Files that tasks write, without Spark."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from couriermq.spark.tasks import write_rows


def test_two_attempts_in_processes_of_one_number_do_not_write_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in two pods: process numbers coincide, and one attempt is amid its file while the other writes all of its."""
    file, write, hidden = tmp_path / "part-0.parquet", pq.write_table, []
    monkeypatch.setattr(os, "getpid", lambda: 7)

    def write_amid_another(rows: pa.Table, where: Path, **options: object) -> None:
        hidden.append(where)
        write(rows, where, **options)
        if len(hidden) == 1:
            write_rows(file, rows)
            assert where.exists()

    monkeypatch.setattr(pq, "write_table", write_amid_another)
    write_rows(file, pa.table({"n": [1, 2]}))
    assert len({*hidden}) == 2
    assert {path.name[0] for path in hidden} == {"."}
    assert pq.read_table(file).column("n").to_pylist() == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
