"""Durations as KLL sketches, which add up: of batches to minutes, of minutes to hours and days."""

from pyspark.sql import Column
from pyspark.sql import functions as f

from courier.spark.tables.columns import BYTES, NUMBER

QUANTILES = {"latency_p50_ms": 0.5, "latency_p95_ms": 0.95, "latency_p99_ms": 0.99}
SKETCH = "latency_sketch"
EXACT = 800
"""The sketches' k: so many durations are kept as they are, and of more a quantile's rank is off by about 0.4 %. Most
minutes of a queue have fewer, and a sketch has at most some twenty kilobytes."""
COLUMNS = {**dict.fromkeys(QUANTILES, NUMBER), SKETCH: BYTES}


def sketch(duration_ms: str) -> Column:
    return f.kll_sketch_agg_bigint(duration_ms, EXACT).alias(SKETCH)


def merged() -> Column:
    return f.kll_merge_agg_bigint(SKETCH, EXACT).alias(SKETCH)


def quantiles() -> dict[str, Column]:
    """The columns that people read, from the sketch."""
    some = f.col(SKETCH).isNotNull() & (f.kll_sketch_get_n_bigint(SKETCH) > 0)
    return {
        name: f.when(some, f.kll_sketch_get_quantile_bigint(SKETCH, f.lit(share))) for name, share in QUANTILES.items()
    }
