"""The same promises where queues live on two shards in turn, so that half of what belongs together is apart."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.storage.test_counters import *  # noqa: F403
from tests.storage.test_dying import *  # noqa: F403
from tests.storage.test_exchanges import *  # noqa: F403
from tests.storage.test_fifo import *  # type: ignore[assignment]  # noqa: F403 - helpers of one name: tests use their own
from tests.storage.test_hastening import *  # noqa: F403
from tests.storage.test_leasing import *  # noqa: F403
from tests.storage.test_moving import *  # noqa: F403
from tests.storage.test_retention import *  # noqa: F403
from tests.support.engines import Rig, TwoShards, forget

del test_dead_letters_may_be_sent_elsewhere  # noqa: F821 - of messages from two shards neither is the earlier one


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(lambda: TwoShards(tmp_path / "data", home_weight=1, second_weight=1))
    await rig.open()
    yield rig
    assert await rig.store.check() == []
    await rig.close()
    forget(tmp_path / "data")
