"""Figures of a queue: exact whichever lane they were added in, and cheap beside a transaction that is held open."""

import asyncio
import itertools
from typing import Any

import psycopg
import pytest

from couriermq.core.model import Draft
from couriermq.storage.postgres import connection as connections
from couriermq.storage.postgres.connection import migrate, numbers
from couriermq.storage.postgres.facts import Q
from tests.storage.postgres.test_store import nodes, postgres, url
from tests.support.engines import Rig
from tests.support.eventually import PATIENCE_SECONDS, eventually

__all__ = ["url"]

COMMITS, LOOKS = 3_000, 3
MOST_PAGES = 30
"""A commit that passed all versions of its row would read some 50; it reads 9 as it is."""


async def test_the_price_of_a_commit_does_not_grow_beside_a_transaction_that_is_held_open(url: str) -> None:
    async with (
        nodes(url, 1) as (one,),
        await psycopg.AsyncConnection.connect(url) as holder,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
    ):
        await one.create("orders")
        await one.send("orders")
        key = one.queue("orders").key
        await holder.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await holder.execute("SELECT count(*) FROM tally")
        await connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off", prepare=False)
        lane, commit = await commit_of(connection, one, key)
        for _ in range(COMMITS):
            await connection.execute(commit.encode())
        assert await pages(connection, commit) < MOST_PAGES
        for query in (Q.totals % key, Q.counters_of % f"'{numbers([key])}'"):
            assert await pages(connection, query) < MOST_PAGES
        await connection.execute("UPDATE tally SET sent = sent - %s WHERE lane = %s", (COMMITS + LOOKS, lane))
        assert (await one.counters("orders")).sent_count == 1


async def commit_of(connection: psycopg.AsyncConnection[Any], rig: Rig, key: int) -> tuple[int, str]:
    """A lane, and the call that commits one more sent message in it."""
    ((lane,),) = await (await connection.execute("SELECT max(lane) FROM tally")).fetchall()
    node: Any = rig.store
    values = (
        node._node.space, node._node.catalog_version, "'{}'", "'{}'", "'{}'",
        f"'{numbers([key, lane, 0, 0, 0, 0, 1, 0, 0])}'", "'c'", "NULL", 0,
    )  # fmt: skip
    return lane, Q.commit_unit % values


async def pages(connection: psycopg.AsyncConnection[Any], query: str) -> int:
    """How many pages a query reads at least: after somebody else's DDL the session reads the catalog again as well."""
    read: list[int] = []
    for _ in range(LOOKS):
        found = await connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}".encode())
        ((plan,),) = (row[0] for row in await found.fetchall())
        read.append(int(plan["Plan"]["Shared Hit Blocks"]) + int(plan["Plan"]["Shared Read Blocks"]))
    return min(read)


async def test_a_step_of_the_schema_that_waits_for_a_reader_stops_nobody_for_long(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "STEP_PAUSE_SECONDS", 0.1)
    async with (
        nodes(url, 1) as (one,),
        await psycopg.AsyncConnection.connect(url) as reader,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
    ):
        await one.create("orders")
        await one.send("orders")
        await connection.execute(AS_BEFORE.encode(), prepare=False)
        await reader.execute("SELECT count(*) FROM tally")
        migrating = asyncio.create_task(brought_up_to_date(url, postgres(one)._node.space))
        await eventually(lambda: [line for line in caplog.messages if "step 6 of the schema waits" in line], bool)
        async with asyncio.timeout(PATIENCE_SECONDS):
            for _ in range(5):
                await connection.execute("UPDATE tally SET sent = sent + 1")
        assert not migrating.done()
        await reader.rollback()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await migrating
        await one.send("orders")
        assert (await one.counters("orders")).sent_count == 7


async def brought_up_to_date(url: str, space: int) -> None:
    connection = await connections.connect(url)
    await migrate(connection, space)
    await connection.close()


AS_BEFORE = """
ALTER TABLE tally DROP COLUMN part, DROP COLUMN changes;
ALTER TABLE tally ADD CONSTRAINT tally_pkey1 PRIMARY KEY (queue, lane);
UPDATE schema_version SET version = 5;
"""


async def test_figures_stay_exact_over_many_commits_in_several_lanes(url: str) -> None:
    async with nodes(url) as (one, other):
        await one.create("orders")
        await other.store.catch_up()
        for rig, _ in zip(itertools.cycle((one, other)), range(200), strict=False):
            await rig.send_all("orders", [Draft(body=b"xy")] * 3)
        for rig in (one, other) * 50:
            for lease in await rig.receive("orders", limit=3):
                await rig.ack("orders", lease)
        counters = await one.counters("orders")
        assert counters == await other.counters("orders")
        assert (counters.ready_count, counters.leased_count, counters.byte_count) == (300, 0, 600)
        assert (counters.sent_count, counters.acked_count) == (600, 300)
        assert await one.store.check() == []
