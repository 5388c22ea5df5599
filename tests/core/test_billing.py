"""What a message costs, and that everybody who counts comes to the same."""

import json

import pyarrow as pa
import pytest

from couriermq.core.billing import UNIT_BYTES, billable_units
from couriermq.core.events import Event, EventKind
from couriermq.dialects.anypoint import figures
from couriermq.dialects.anypoint.table_history import _usage

SIZES = (0, 1, UNIT_BYTES - 1, UNIT_BYTES, UNIT_BYTES + 1, 10 * UNIT_BYTES, 10 * UNIT_BYTES + 1)
UNITS = (1, 1, 1, 1, 2, 10, 11)


@pytest.mark.parametrize(("size", "units"), list(zip(SIZES, UNITS, strict=True)))
def test_a_message_is_at_least_one_unit_and_each_begun_one_counts(size: int, units: int) -> None:
    assert billable_units(size) == units


def test_journal_and_tables_count_the_same_units() -> None:
    live = figures.Figures()
    for seq, size in enumerate(SIZES):
        live.take(Event(EventKind.RECEIVED, 1, "default", "q", "orders", seq, f"m{seq}", size=size), now=1)
    rows = {
        "at": pa.array([1] * len(SIZES), pa.timestamp("ms", "UTC")),
        "kind": ["received"] * len(SIZES),
        "size": pa.array(SIZES, pa.int64()),
        "detail": [json.dumps({})] * len(SIZES),
    }
    assert live.tenant("default").grains[3_600_000][0][figures.UNITS] == sum(UNITS)
    assert _usage(pa.table(rows))[0][figures.UNITS] == sum(UNITS)
