"""How long the tests of random histories, kills and clusters run: `make soak` sets COURIER_SOAK_SECONDS for each."""

import os
import time
from collections.abc import Iterator
from typing import TypeVar

Size = TypeVar("Size")

SECONDS = float(os.environ.get("COURIER_SOAK_SECONDS", "0"))


def sized(usual: Size, soak: Size) -> Size:
    """The size of a test: small in `make test`, large in `make soak`."""
    return soak if SECONDS else usual


def repeated() -> Iterator[int]:
    """Once in `make test`; until the time is over in `make soak`."""
    deadline = time.monotonic() + SECONDS
    yield 0
    number = 0
    while time.monotonic() < deadline:
        number += 1
        yield number
