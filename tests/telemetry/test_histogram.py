"""Counting by upper bound."""

from couriermq.telemetry.histogram import Histogram
from couriermq.telemetry.metrics import buckets


def test_a_value_counts_under_the_first_bound_that_holds_it() -> None:
    histogram = Histogram((1, 5, 10))
    for value in (0, 1, 1.5, 5, 11):
        histogram.observe(value)
    assert (histogram.counts, histogram.count, histogram.total) == ([2, 2, 0, 1], 5, 18.5)


def test_prometheus_gets_running_totals() -> None:
    histogram = Histogram((1, 5))
    for value in (1, 2, 3, 9):
        histogram.observe(value)
    assert buckets(histogram) == [("1", 1.0), ("5", 3.0), ("+Inf", 4.0)]
