"""Found by Spark on its own: makes `format("courier")` known wherever Courier is installed."""

from couriermq.spark.source import CourierSource as DefaultSource

__all__ = ["DefaultSource"]
