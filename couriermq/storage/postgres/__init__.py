"""The engine for many nodes: PostgreSQL 15 or newer, shared by any number of them."""

from couriermq.storage.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
