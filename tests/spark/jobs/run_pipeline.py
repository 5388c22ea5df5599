"""Takes a journal into a lake: WHERE URL TOKEN ROWS_PER_BATCH LAKE."""

import sys
from pathlib import Path

from couriermq.spark import pipeline
from couriermq.spark.journal import Journal
from couriermq.spark.session import open_session
from tests.support.spark_cluster import cluster_conf


def main(where: str, url: str, token: str, rows: str, lake: str) -> None:
    root = Path(lake)
    conf = cluster_conf(root.parent / "spark")
    spark = open_session(where, name="pipeline", conf=conf)
    job = pipeline.Job(Journal(url, token), root, rows_per_batch=int(rows))
    try:
        pipeline.run(spark, job)
    finally:
        spark.stop()


main(*sys.argv[1:])
