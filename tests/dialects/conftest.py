"""Every test of this folder that needs a store runs on every engine."""

from tests.support.stores import engine, on_every_engine

pytest_generate_tests = on_every_engine

__all__ = ["engine", "pytest_generate_tests"]
