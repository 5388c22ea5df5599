"""Rows are cut into requests by their bytes, without Spark."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.spark import writer
from couriermq.spark.writer import PART_BYTES, PART_ROWS, pieces, to_stream

OVERHEAD = 64 * 1024
"""What a request has beside its rows: offsets, bits of nulls, the schema."""


def test_a_few_large_rows_among_many_small_ones_do_not_make_a_large_request() -> None:
    batch = pa.record_batch({"body": [b"x" * 1_000_000] * 90 + [b"y" * 100] * 9_910})
    cut = list(pieces(batch))
    assert pa.Table.from_batches(cut) == pa.Table.from_batches([batch])
    assert max(len(to_stream(piece)) for piece in cut) <= PART_BYTES + OVERHEAD
    assert len(cut) == 22 + 2  # four large rows each; then two large rows and all small ones, cut by their number


def test_a_row_that_is_too_large_for_a_piece_goes_alone() -> None:
    batch = pa.record_batch({"body": [b"a", b"x" * (PART_BYTES + 1), b"b", b"c"]})
    assert [piece.num_rows for piece in pieces(batch)] == [1, 1, 2]


def test_small_rows_are_cut_by_their_number() -> None:
    batch = pa.record_batch({"body": [None] * (PART_ROWS + 1)}, schema=pa.schema([("body", pa.binary())]))
    assert [piece.num_rows for piece in pieces(batch)] == [PART_ROWS, 1]


@given(rows=st.lists(st.tuples(st.integers(0, 60), st.none() | st.text(max_size=9))), cut=st.integers(0))
def test_pieces_are_the_batch_and_each_fits_unless_it_is_one_row(rows: list[tuple[int, str | None]], cut: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "PART_BYTES", 50)
        patch.setattr(writer, "PART_ROWS", 7)
        bodies, groups = pa.array([b"x" * size for size, _ in rows], pa.binary()), [group for _, group in rows]
        whole = pa.record_batch(
            {"body": bodies, "group": pa.array(groups, pa.string()), "delay_ms": pa.array([0] * len(rows), pa.int64())}
        )
        batch = whole.slice(cut % (len(rows) + 1))
        found = list(pieces(batch))
    assert [row for piece in found for row in piece.to_pylist()] == batch.to_pylist()
    for piece in found:
        size = sum(len(row["body"]) + len((row["group"] or "").encode()) + 8 for row in piece.to_pylist())
        assert piece.num_rows == 1 or (size <= 50 and piece.num_rows <= 7)
