"""How long tests run: `make soak` sets COURIER_SOAK_SECONDS for each test of random histories, kills and clusters,
`make fuzz` sets COURIER_FUZZ_SECONDS for each file of generated requests.
"""

import os
import time
from collections.abc import Iterator
from typing import TypeVar

Size = TypeVar("Size")

SECONDS = float(os.environ.get("COURIER_SOAK_SECONDS", "0"))
FUZZ_SECONDS = float(os.environ.get("COURIER_FUZZ_SECONDS", "0"))


def sized(usual: Size, soak: Size) -> Size:
    """The size of a test: small in `make test`, large in `make soak`."""
    return soak if SECONDS else usual


def repeated(seconds: float = SECONDS) -> Iterator[int]:
    """Once in `make test`; until the time is over in `make soak` and `make fuzz`."""
    deadline = time.monotonic() + seconds
    yield 0
    number = 0
    while time.monotonic() < deadline:
        number += 1
        yield number
