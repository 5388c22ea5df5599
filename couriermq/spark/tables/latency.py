"""Durations as KLL sketches, which add up: of batches to minutes, of minutes to hours and days.

They are sketches of doubles, whose bytes are the same in all languages that have KLL: Spark's functions of that name
read and merge them, and so does DuckDB's extension.
"""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from datasketches import kll_doubles_sketch

from couriermq.spark.tables.columns import BYTES, NUMBER

QUANTILES = {"latency_p50_ms": 0.5, "latency_p95_ms": 0.95, "latency_p99_ms": 0.99}
SKETCH = "latency_sketch"
EXACT = 800
"""The sketches' k: so many durations are kept as they are, and of more a quantile's rank is off by about 0.4 %. Most
minutes of a queue have fewer, and a sketch has at most some twenty kilobytes."""
COLUMNS = {**dict.fromkeys(QUANTILES, NUMBER), SKETCH: BYTES}


def sketched(durations: pa.ListArray) -> pa.Array:
    """A sketch for each list; none where there are no durations."""
    return pa.array(map(_sketch, _each(durations)), pa.binary())


def _each(lists: pa.ListArray) -> Iterable[npt.NDArray[np.float64]]:
    flat = lists.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    bounds = lists.offsets.to_numpy()
    for start, stop in pairwise(bounds):
        durations = flat[start:stop]
        yield durations[~np.isnan(durations)]


def _sketch(durations: npt.NDArray[np.float64]) -> bytes | None:
    if not len(durations):
        return None
    sketch = kll_doubles_sketch(EXACT)
    sketch.update(durations)
    return bytes(sketch.serialize())


def merged(sketches: pa.ListArray) -> pa.Array:
    """One sketch of those in each list."""
    return pa.array((_merge([one for one in some if one is not None]) for some in sketches.to_pylist()), pa.binary())


def _merge(sketches: list[bytes]) -> bytes | None:
    if len(sketches) < 2:
        return sketches[0] if sketches else None
    whole = kll_doubles_sketch(EXACT)
    for sketch in sketches:
        whole.merge(kll_doubles_sketch.deserialize(sketch))
    return bytes(whole.serialize())


def quantiles(sketches: pa.Array) -> dict[str, pa.Array]:
    """The columns that people read, from the sketches."""
    found = [_quantiles(sketch) for sketch in sketches.to_pylist()]
    return {name: pa.array((row[place] for row in found), pa.int64()) for place, name in enumerate(QUANTILES)}


def _quantiles(sketch: bytes | None) -> list[int | None]:
    """Of each, the smallest duration that at least such a share does not exceed."""
    if sketch is None:
        return [None] * len(QUANTILES)
    opened = kll_doubles_sketch.deserialize(sketch)
    return [round(opened.get_quantile(share, True)) for share in QUANTILES.values()]
