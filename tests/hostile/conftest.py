"""Every test of this folder is slow; those that measure how long other clients wait have the machine to themselves."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
MEASURES_LATENCY = {"test_attacks.py", "test_delivery_attacks.py", "test_slow_attacks.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.slow)
            if item.path.name in MEASURES_LATENCY:
                item.add_marker(pytest.mark.alone)
