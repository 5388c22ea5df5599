"""Thousands of random steps, and no engine differs from the specification in any of them. `make soak` runs more."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.engines import ENGINES, Rig
from tests.support.histories import Histories
from tests.support.soak import repeated, sized

STEPS = 60
COUNTS = {"sqlite": sized(25, 40), "postgres": sized(7, 10), "sharded": sized(5, 10)}
"""How many histories. Each step of PostgreSQL's is a round trip; a sharded store is that with a router before it."""


@pytest.mark.slow
@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_no_history_tells_an_engine_from_the_specification(engine: str) -> None:
    class OfEngine(Histories):
        is_concurrent = engine != "sqlite"

        def make_rig(self) -> Rig:
            return Rig(lambda: ENGINES[engine](self.folder, hasty=True))

    profile = settings(settings(), max_examples=COUNTS[engine], stateful_step_count=STEPS)
    for _ in repeated():
        run_state_machine_as_test(OfEngine, settings=profile)
