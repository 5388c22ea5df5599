"""What all tests of the engine share."""

from collections.abc import Iterator

import pytest

from couriermq.storage.postgres import engine


@pytest.fixture(autouse=True)
def patient_server() -> Iterator[None]:
    """Tests stop nodes in the middle of transactions, on a busy machine for longer than a node may be silent."""
    seconds, engine.HOLD_SECONDS = engine.HOLD_SECONDS, 120
    yield
    engine.HOLD_SECONDS = seconds
