"""A page that shows the tail for long does not grow. `make soak` watches it for longer."""

import pytest
from playwright.sync_api import Browser

from tests.console.tail_memory import LIMIT_BYTES, watch_tail
from tests.support import soak
from tests.support.server import ServerProcess

pytestmark = pytest.mark.slow

SECONDS, EVERY_SECONDS = soak.sized(10.0, soak.SECONDS), 5.0
NODE_COUNT = 40_000
"""Well above what 400 events take, and well below what 2,000 would."""


def test_a_tail_of_a_thousand_events_a_second_takes_little_memory(server: ServerProcess, browser: Browser) -> None:
    samples = list(watch_tail(server, browser, seconds=SECONDS, every=EVERY_SECONDS))
    assert samples[-1].events > samples[0].events
    assert max(sample.proportional_bytes for sample in samples) < LIMIT_BYTES
    assert max(sample.node_count for sample in samples) < NODE_COUNT
