"""Where tables are kept: one interface, and a module for each format."""

from couriermq.spark.stores.base import TableStore, open_store

__all__ = ["TableStore", "open_store"]
