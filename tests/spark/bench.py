"""A queue of a test's own, and Spark to consume it and to write into it."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.support.server import ServerProcess


class Bench:
    """Calls the server as root; the names of queues are the test's to choose."""

    def __init__(self, spark: SparkSession, server: ServerProcess) -> None:
        self.spark = spark
        self.server = server
        self.options = {"url": server.url, "token": server.token}
        self._session = server.session

    def ask(self, method: str, path: str, document: Any = None) -> Any:
        url = f"{self.server.url}/courier/v1/tenants/default{path}"
        answer = self._session.request(method, url, json=document, timeout=60)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def create(self, queue: str, **settings: Any) -> str:
        self.ask("POST", "/queues", {"name": queue, "settings": settings})
        return queue

    def send(self, queue: str, count: int, first: int = 0) -> None:
        for begin in range(first, first + count, 1_000):
            numbers = range(begin, min(begin + 1_000, first + count))
            messages = [{"body": f"{n:06}", "attributes": {"n": n}} for n in numbers]
            self.ask("POST", f"/queues/{queue}/messages", {"messages": messages})

    def messages(self, queue: str) -> list[dict[str, Any]]:
        """Every message that is in a queue, in its order."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self.ask("GET", f"/queues/{queue}/messages?limit=1000{after}")
            found += page["messages"]
            if page["next"] is None:
                return found
            after = f"&after={page['next']}"

    def bodies(self, queue: str) -> list[str]:
        return [message["body"] for message in self.messages(queue)]

    def counters(self, queue: str) -> dict[str, int]:
        counters: dict[str, int] = self.ask("GET", f"/queues/{queue}/counters")
        return counters

    def claims(self, queue: str) -> list[int]:
        """The numbers of the claims that jobs hold."""
        return [claim["number"] for job in self.ask("GET", f"/queues/{queue}/jobs")["jobs"] for claim in job["claims"]]

    def consume(self, queue: str, **options: Any) -> DataFrame:
        wanted = {"mode": "consume", "queue": queue, "job": "job"} | self.options | options
        return self.spark.readStream.format("courier").options(**wanted).load()

    def write(self, frame: DataFrame, **options: Any) -> None:
        frame.write.format("courier").mode("append").options(**(self.options | options)).save()

    def pour(self, frame: DataFrame, checkpoint: Path, **options: Any) -> Any:
        """Write all that a stream has now into a queue; gives the query, ended."""
        writer = frame.writeStream.format("courier").options(**(self.options | options))
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return query
