"""The embedded engine: one SQLite file, one writer, one fsync for everybody who waits."""

from couriermq.storage.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
