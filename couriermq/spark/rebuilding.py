"""Every table again from the journal: made beside the old ones, and put in their place when it is whole."""

import json
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from pyspark.sql import SparkSession

from couriermq.spark.lake import CHECKPOINT, NOTE, write_synced
from couriermq.spark.pipeline import Job, Progress, run
from couriermq.spark.refreshing import TABLES, WAITING
from couriermq.spark.stores.staging import sync

FRESH, OLD, COMPLETE = "_rebuild", "_old", "_complete"
PIECES = (*TABLES, WAITING, CHECKPOINT, NOTE)


def rebuild(
    spark: SparkSession,
    job: Job,
    *,
    report: Callable[[Progress], None] = lambda _: None,
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Until it is done, readers see the old tables; one that is stopped or killed leaves them as they were."""
    finish(job.lake)
    fresh = job.lake / FRESH
    run(spark, job._replace(lake=fresh), report=report, stopping=stopping)
    if stopping():
        return
    fresh.mkdir(parents=True, exist_ok=True)  # a journal without events makes no table
    mark_complete(fresh)
    finish(job.lake)


def mark_complete(fresh: Path) -> None:
    """Say that a rebuild is whole, and name its pieces: once they are in place, they cannot be told from old ones."""
    write_synced(fresh / COMPLETE, [piece for piece in PIECES if (fresh / piece).exists()])
    sync(fresh)


def finish(root: Path) -> None:
    """Put in place what was rebuilt, or the rest of it after a crash; a rebuild that is not whole is removed."""
    fresh = root / FRESH
    if (fresh / COMPLETE).exists():
        _put_in_place(root, fresh, _pieces_of(fresh))
        (fresh / COMPLETE).unlink()
        sync(fresh)  # whatever of the folder is removed from here on is not looked at again
    if fresh.exists():
        shutil.rmtree(fresh)


def _pieces_of(fresh: Path) -> Collection[str]:
    """The pieces that the mark names; that of an earlier version names none, and may stand for any."""
    named = (fresh / COMPLETE).read_text()
    return frozenset(json.loads(named)) if named else PIECES


def _put_in_place(root: Path, fresh: Path, rebuilt: Collection[str]) -> None:
    """Piece by piece: what the rebuild has takes the place of the old one, what it does not have is gone."""
    old = fresh / OLD
    old.mkdir(exist_ok=True)
    for piece in PIECES:
        waits = (fresh / piece).exists()
        if (waits or piece not in rebuilt) and (root / piece).exists():
            os.rename(root / piece, old / piece)  # noqa: PTH104 - a file or a folder alike
        if waits:
            os.rename(fresh / piece, root / piece)  # noqa: PTH104
    for folder in (root, old):
        sync(folder)
