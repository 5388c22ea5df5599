"""A node whose clock disagrees with the database's warns, and beyond a limit does not serve."""

import logging
import time
from pathlib import Path

import pytest

from couriermq.clock import SystemClock
from couriermq.core.errors import Unavailable
from couriermq.storage.skew import Skew
from tests.support.inprocess import courier_app
from tests.support.postgres import shared_cluster

HOUR_MS = 3_600_000


def test_more_than_a_second_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    skew = Skew(None, limit_ms=10_000)
    for skew_ms in (900, 1_500, 2_000):
        skew.judge(skew_ms)
        skew.check()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_beyond_the_limit_nothing_is_served_until_the_clocks_agree() -> None:
    skew = Skew(None, limit_ms=10_000)
    skew.judge(10_001)
    with pytest.raises(Unavailable, match="clock"):
        skew.check()
    skew.judge(0)
    skew.check()


@pytest.mark.parametrize(("ahead_ms", "fine"), [(0, True), (60_000, False), (-60_000, False)])
async def test_the_clock_of_a_node_is_compared_with_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_ms: int, fine: bool
) -> None:
    monkeypatch.setattr(SystemClock, "now", lambda self: time.time_ns() // 1_000_000 + ahead_ms)
    store = shared_cluster().store_url(tmp_path)
    async with courier_app(tmp_path, store=store, max_clock_skew_ms=HOUR_MS) as app:
        made = await app.post("/courier/v1/tenants/default/queues", {"name": "orders"})
        assert made.status == 201
    async with courier_app(tmp_path, store=store, clock=SystemClock(), max_clock_skew_ms=20_000) as app:
        answers = [
            await app.get("/readyz"),
            await app.post("/courier/v1/tenants/default/queues/orders/messages", {"body": "x"}),
            await app.post("/courier/v1/tenants/default/queues/orders/receive", {}),
            await app.get("/courier/v1/tenants/default/queues/orders/counters"),
            await app.post("/courier/v1/tenants/default/queues", {"name": "other"}),
        ]
    assert {answer.status < 300 for answer in answers} == {fine}, answers
    assert fine or {answer.status for answer in answers} == {503}
