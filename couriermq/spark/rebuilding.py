"""Every table again from the journal: made beside the old ones, and put in their place when it is whole."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from couriermq.spark.lake import CHECKPOINT, NOTE
from couriermq.spark.pipeline import Job, Progress, run
from couriermq.spark.refreshing import TABLES, WAITING

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
    shutil.rmtree(fresh, ignore_errors=True)
    run(spark, job._replace(lake=fresh), report=report, stopping=stopping)
    if stopping():
        return
    fresh.mkdir(parents=True, exist_ok=True)  # a journal without events makes no table
    (fresh / COMPLETE).touch()
    finish(job.lake)


def finish(root: Path) -> None:
    """Put what was rebuilt in place, or the rest of it if a crash came in between."""
    fresh = root / FRESH
    if not (fresh / COMPLETE).exists():
        return
    old = fresh / OLD
    old.mkdir(exist_ok=True)
    for piece in PIECES:
        if (fresh / piece).exists() or not (old / piece).exists():
            _put(fresh / piece, root / piece, old / piece)
    shutil.rmtree(fresh)


def _put(fresh: Path, place: Path, old: Path) -> None:
    if place.exists() and not old.exists():
        os.rename(place, old)  # noqa: PTH104 - a file or a folder alike
    if fresh.exists():
        os.rename(fresh, place)  # noqa: PTH104
