"""Found by Spark on its own: makes `format("courier")` known wherever Courier is installed."""

from courier.spark.source import CourierSource as DefaultSource

__all__ = ["DefaultSource"]
