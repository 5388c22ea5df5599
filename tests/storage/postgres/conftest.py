"""What all tests of the engine share."""

from collections.abc import Iterator

import pytest

from couriermq.storage.postgres import engine, notifications


@pytest.fixture(autouse=True)
def patient_server() -> Iterator[None]:
    """Tests stop nodes in the middle of transactions, on a busy machine for longer than a node may be silent."""
    seconds, engine.HOLD_SECONDS = engine.HOLD_SECONDS, 120
    yield
    engine.HOLD_SECONDS = seconds


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes learn only from notices what others have made ready."""

    async def nothing(*values: object) -> None:
        pass

    monkeypatch.setattr(notifications.Watch, "_poll", nothing)
