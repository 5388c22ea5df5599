"""How the rows that a trim has retained are looked at again."""

import pytest

from couriermq.storage.trimming import LOOKS, Round

STEP = 10


class Rows:
    """Rows that are retained, of which some are of no use any more."""

    def __init__(self, count: int, unused: set[int]) -> None:
        self.rows = list(range(count))
        self.unused = unused
        self.steps = 0

    async def step(self, after: int) -> tuple[int | None, int]:
        self.steps += 1
        seen = [row for row in self.rows if row > after][:STEP]
        gone = self.unused.intersection(seen)
        self.rows = [row for row in self.rows if row not in gone]
        return seen[-1] if len(seen) == STEP else None, len(gone)


@pytest.mark.parametrize("trimmed", [1, 3])
async def test_it_looks_at_some_rows_for_each_step_that_trimmed(trimmed: int) -> None:
    rows = Rows(1_000, set())
    await Round().go_on(rows.step, trimmed=trimmed)
    assert rows.steps == LOOKS * trimmed


async def test_it_goes_on_while_it_finds_something() -> None:
    rows = Rows(1_000, set(range(500)))
    await Round().go_on(rows.step, trimmed=1)
    assert (rows.steps, len(rows.rows)) == (51, 500)


async def test_it_goes_on_where_it_stopped_and_begins_anew_at_the_end() -> None:
    rows, round_ = Rows(1_000, {999}), Round()
    for _ in range(50):
        await round_.go_on(rows.step, trimmed=1)
    assert 999 not in rows.rows
    rows.unused = {0}
    for _ in range(2):
        await round_.go_on(rows.step, trimmed=1)
    assert 0 not in rows.rows


async def test_few_rows_are_all_looked_at() -> None:
    rows, round_ = Rows(STEP, set()), Round()
    for unused in range(STEP):
        rows.unused = {unused}
        await round_.go_on(rows.step, trimmed=1)
    assert rows.rows == []
