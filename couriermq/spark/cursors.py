"""Keeps a cursor of the journal where a query has come to, so that the server forgets nothing that it still needs."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from couriermq.spark.journal import Journal
from couriermq.spark.offsets import read_offsets


class CursorKeeper(StreamingQueryListener):
    """Moves a cursor as soon as Spark has committed a batch.

    The option `cursor` alone does so when the stream next looks for news, as its trigger says.

        spark.streams.addListener(CursorKeeper(Journal(url, token), "lake", query="lake"))

    `query` is the name of the query to follow; a session with one query needs none.
    """

    def __init__(self, journal: Journal, cursor: str, *, query: str | None = None) -> None:
        self._journal = journal
        self._cursor = cursor
        self._query = query

    def keep(self, progress: Any) -> None:
        """Move the cursor to where the progress says that the query is."""
        if self._query in {None, progress.name}:
            advance_cursor(self._journal, self._cursor, read_offsets(progress.sources[0].endOffset))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's names
        self.keep(event.progress)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


def advance_cursor(journal: Journal, cursor: str, offsets: Mapping[str, int | str]) -> None:
    """In each lane; one that is further on stays where it is."""
    for offset in offsets.values():
        journal.advance_cursor(cursor, offset)
