"""Do for each of some servers all that there is to do: read a queue, carry another, take the journal into a lake.

python -m tests.spark.jobs.do_everything WHERE FOLDER ROWS_PER_BATCH (URL TOKEN READ SOURCE TARGET)…
"""

import sys
from pathlib import Path

from couriermq.spark import pipeline
from couriermq.spark.journal import Journal
from couriermq.spark.session import open_session
from tests.spark.jobs.carry_messages import carry
from tests.spark.jobs.read_messages import read
from tests.support.spark_cluster import cluster_conf


def main(where: str, folder: str, rows: str, *errands: str) -> None:
    out = Path(folder)
    spark = open_session(where, name="do everything", conf=cluster_conf(out))
    for number, (url, token, queue, source, target) in enumerate(zip(*[iter(errands)] * 5, strict=True)):
        place = out / str(number)
        read(spark, url, token, queue, rows, place / "read")
        carry(spark, url, token, source, target, rows, place / "carried")
        pipeline.run(spark, pipeline.Job(Journal(url, token), place / "lake"))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
