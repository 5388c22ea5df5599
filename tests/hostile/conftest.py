"""Every test of this folder is slow; those that keep all processors busy have the machine to themselves."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
ALONE = {"test_attacks.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.slow)
            if item.path.name in ALONE:
                item.add_marker(pytest.mark.alone)
