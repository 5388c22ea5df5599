"""The engine's SQL, by name."""

from couriermq.storage.queries import load_queries

Q = load_queries(__package__)
