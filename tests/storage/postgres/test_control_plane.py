"""Changes of the control plane that lose their callers, or their turn."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec
import psycopg
import pytest

from couriermq.core.errors import QueueNotFound, Unavailable
from couriermq.core.model import Draft, QueueSettings
from couriermq.storage.postgres.records import TURN_LOCK
from tests.storage.postgres.test_races import before_commit
from tests.storage.postgres.test_store import nodes, postgres, url
from tests.support.engines import WHO, Rig
from tests.support.eventually import eventually

__all__ = ["url"]


async def cancelled_in_commit(rig: Rig, monkeypatch: pytest.MonkeyPatch, change: Coroutine[Any, Any, object]) -> None:
    """Cancel the caller between the decision and the commit, which goes on without it."""
    task = asyncio.create_task(change)

    async def meanwhile() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    before_commit(rig, monkeypatch, meanwhile)
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not postgres(rig)._commit._running)


async def test_a_deletion_whose_caller_is_cancelled_during_its_commit_is_heard_of(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(url, 1) as (one,):
        queue = await one.create("orders")
        await cancelled_in_commit(one, monkeypatch, one.catalog.delete_queue(queue, principal=WHO))
        (outcome,) = await one.broker.send(queue, [Draft(body=b"x")], principal=WHO)
        assert isinstance(outcome, QueueNotFound)


async def test_settings_whose_caller_is_cancelled_during_their_commit_hold(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(url) as (one, two):
        queue = await one.create("orders")
        await two.store.catch_up()
        change = one.catalog.change_queue(queue, settings=QueueSettings(delay_ms=5_000), principal=WHO)
        await cancelled_in_commit(one, monkeypatch, change)
        await two.store.catch_up()
        assert two.queue("orders").settings.delay_ms == 5_000
        await one.send("orders")
        assert (await two.counters("orders")).delayed_count == 1


async def test_a_change_that_has_lost_its_turn_undoes_nothing_of_another(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(url) as (one, two):
        queue = await one.create("orders")
        await two.store.catch_up()

        async def meanwhile() -> None:
            async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
                found = await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                    " AND classid::bigint = %s AND objid::bigint = %s AND granted",
                    (postgres(one)._node.space & 0xFFFFFFFF, TURN_LOCK & 0xFFFFFFFF),
                )
                assert await found.fetchall() == [(True,)]
            await two.catalog.change_queue(
                queue, settings=lambda known: msgspec.structs.replace(known, max_leased=5), principal=WHO
            )

        before_commit(one, monkeypatch, meanwhile)
        with pytest.raises(Unavailable):
            await one.catalog.change_queue(
                queue, settings=lambda known: msgspec.structs.replace(known, delay_ms=1_000), principal=WHO
            )
        await two.store.catch_up()
        assert two.queue("orders").settings.max_leased == 5
