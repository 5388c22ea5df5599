"""Consume a queue and write what was consumed into another, until the first is empty.

python -m tests.spark.jobs.carry_messages WHERE URL TOKEN SOURCE TARGET ROWS_PER_BATCH FOLDER
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from couriermq.spark.session import open_session
from tests.support.spark_cluster import cluster_conf


def carry(spark: SparkSession, url: str, token: str, source: str, target: str, rows: str, folder: Path) -> None:
    options = {"url": url, "token": token}
    wanted = {"mode": "consume", "queue": source, "job": "carrier", "maxRecordsPerBatch": rows}
    taken = spark.readStream.format("courier").options(**options, **wanted).load()
    writer = taken.select("body", "attributes").writeStream.format("courier").options(**options, queue=target)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def main(where: str, url: str, token: str, source: str, target: str, rows: str, folder: str) -> None:
    out = Path(folder)
    spark = open_session(where, name="carry messages", conf=cluster_conf(out))
    carry(spark, url, token, source, target, rows, out)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
