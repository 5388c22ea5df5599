"""An engine that exists is an engine that this suite runs on."""

from pathlib import Path

import courier.storage
from tests.support.engines import ENGINES


def test_no_engine_is_left_out() -> None:
    folder = Path(courier.storage.__file__).parent
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert packages == set(ENGINES)
