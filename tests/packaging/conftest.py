"""The packages that `make dist` builds, once for all tests."""

import pytest

from tests.support.packages import Packages, make_dist, snapshot


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    clone = tmp_path_factory.mktemp("packages") / "clone"
    snapshot(clone)
    return make_dist(clone)
