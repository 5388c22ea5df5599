"""Stream the messages of a queue into Parquet until all that there is has been read.

python -m tests.spark.jobs.read_messages WHERE URL TOKEN QUEUE ROWS_PER_BATCH FOLDER
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from couriermq.spark.session import open_session
from tests.support.spark_cluster import cluster_conf


def read(spark: SparkSession, url: str, token: str, queue: str, rows: str, folder: Path) -> None:
    options = {"url": url, "token": token, "mode": "messages", "queue": queue, "maxRecordsPerBatch": rows}
    messages = spark.readStream.format("courier").options(**options).load()
    writer = messages.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "table")).awaitTermination()


def main(where: str, url: str, token: str, queue: str, rows: str, folder: str) -> None:
    out = Path(folder)
    spark = open_session(where, name="read messages", conf=cluster_conf(out))
    read(spark, url, token, queue, rows, out)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
