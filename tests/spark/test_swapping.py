"""Which files of a log are put together."""

from pathlib import Path

from couriermq.spark.stores.swapping import small_neighbours


def groups(root: Path, *batches: list[int], most_bytes: int) -> list[list[int]]:
    """Of batches, each given by the sizes of its files, what is put together; and the newest batch, which never is."""
    paths = []
    for number, sizes in enumerate([*batches, [1, 1]]):
        folder = root / f"batch={number:08d}"
        folder.mkdir()
        paths.append([folder / f"part-{index}.parquet" for index in range(len(sizes))])
        for path, size in zip(paths[-1], sizes, strict=True):
            path.write_bytes(b"x" * size)
    return [[file.stat().st_size for file in group] for group in small_neighbours(paths, most_bytes)]


def test_neighbours_are_put_together_up_to_the_limit(tmp_path: Path) -> None:
    assert groups(tmp_path, [40], [50, 10], [30], [70], most_bytes=100) == [[40, 50, 10], [30, 70]]


def test_one_batch_of_several_small_files_is_worth_it(tmp_path: Path) -> None:
    assert groups(tmp_path, [30, 31], [90], most_bytes=100) == [[30, 31]]


def test_a_batch_that_alone_is_above_the_limit_stays_as_it_is(tmp_path: Path) -> None:
    assert groups(tmp_path, [60, 61], [62, 63], most_bytes=100) == []


def test_batches_on_both_sides_of_a_large_one_are_not_neighbours(tmp_path: Path) -> None:
    assert groups(tmp_path, [10], [11], [60, 61], [12], [13], most_bytes=100) == [[10, 11], [12, 13]]
