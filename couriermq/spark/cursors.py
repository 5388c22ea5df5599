"""Keeps a cursor of the journal where a query has come to, so that the server forgets nothing that it still needs."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from couriermq.spark.consume import CLAIM
from couriermq.spark.incarnation import STORE, places_of
from couriermq.spark.journal import Journal
from couriermq.spark.offsets import Offsets, read_source


class CursorKeeper(StreamingQueryListener):
    """Moves a cursor as soon as Spark has committed a batch.

    The option `cursor` alone does so when the stream next looks for news, as its trigger says.

        spark.streams.addListener(CursorKeeper(Journal(url, token), "lake", query="lake"))

    `query` is the name of the query to follow; a session with one query needs none. Where the query reads the journal
    with several sources, the cursor is where the last of them is.
    """

    def __init__(self, journal: Journal, cursor: str, *, query: str | None = None) -> None:
        self._journal = journal
        self._cursor = cursor
        self._query = query

    def keep(self, progress: Any) -> None:
        """Move the cursor to where the progress says that the query is."""
        if self._query in {None, progress.name}:
            advance_cursor(self._journal, self._cursor, self._reached(progress.sources))

    def _reached(self, sources: Iterable[Any]) -> Offsets:
        """In each lane, what all sources of this journal have read; nothing where there are none."""
        found = [read_source(source.endOffset) for source in sources]
        ours = [offsets for offsets in found if STORE in offsets and CLAIM not in offsets]
        if len({offsets[STORE] for offsets in ours}) > 1:
            stamp = self._journal.stamp()
            ours = [offsets for offsets in ours if offsets[STORE] == stamp]
        read = [places for offsets in ours if _are_numbers(places := places_of(offsets))]
        lanes = set.intersection(*map(set, read)) if read else set()
        return {lane: min(int(offsets[lane]) for offsets in read) for lane in sorted(lanes)}

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


def _are_numbers(places: Mapping[str, Any]) -> bool:
    """Whether they are the journal's own; a source that reads as a tenant has positions that only the server knows."""
    return all(isinstance(place, int) for place in places.values())
