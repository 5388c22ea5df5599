"""Thousands of random steps, and no engine differs from the specification in any of them. `make soak` runs more."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.engines import ENGINES, Rig
from tests.support.histories import Histories
from tests.support.soak import repeated

STEPS = 60


@pytest.mark.slow
@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_no_history_tells_an_engine_from_the_specification(engine: str) -> None:
    class OfEngine(Histories):
        is_concurrent = engine != "sqlite"

        def make_rig(self) -> Rig:
            return Rig(lambda: ENGINES[engine](self.folder, hasty=True))

    profile = settings()
    count = profile.max_examples // (1 if engine == "sqlite" else 4)  # elsewhere every step is a round trip
    for _ in repeated():
        run_state_machine_as_test(OfEngine, settings=settings(profile, max_examples=count, stateful_step_count=STEPS))
