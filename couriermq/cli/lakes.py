"""`courier compact`, and that only one at a time writes into a lake."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from couriermq.cli.connection import Output
from couriermq.cli.data import LakePlace, lake_directory
from couriermq.cli.exits import Exit, Failure
from couriermq.cli.progress import Progress
from couriermq.cli.quantities import show_count
from couriermq.cli.screen import Screen
from couriermq.cli.spark import require_spark

SPARK_LOG = Path("_logs") / "spark.log"
"""What Spark itself has to say, below the lake."""
LOCK = "_lock"


@contextlib.contextmanager
def only_writer(lake: Path) -> Iterator[None]:
    """Hold the lake for writing; the system lets go of it when the process dies."""
    lake.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lake / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Failure(f"another pipeline is at work in {lake}, or an erasure; wait for it or stop it") from None
    finally:
        os.close(descriptor)


def compact(*, lake: LakePlace = None, json: Output = False) -> None:
    """Make few large files of the many small ones that frequent runs leave, without changing a row."""
    screen, place = Screen(json=json), lake_directory(lake)
    if not place.is_dir():
        raise Failure(f"there is no lake in {place}", Exit.NOT_FOUND)
    require_spark()
    with only_writer(place):
        from couriermq.spark.lake import kept_store  # noqa: PLC0415 - loads Spark's modules, but starts none
        from couriermq.spark.refreshing import TABLES  # noqa: PLC0415

        store, counts = kept_store(place), {}
        with Progress("compacting", unit="table", total=len(TABLES), json=json) as progress:
            for table in TABLES:
                counts[table] = store.compact(table)
                progress.advance(table=table)
    before, after = (sum(pair[side] for pair in counts.values()) for side in (0, 1))
    sentence = f"{show_count(before, 'file')} in {place} became {show_count(after, 'file')}"
    screen.tell({"before": before, "after": after, "lake": str(place)}, sentence)
