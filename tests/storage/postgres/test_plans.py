"""How PostgreSQL carries out what it is asked: by entries of indexes, whatever it believes about the size of tables."""

import itertools
import re
from collections.abc import Iterator

import pytest

from couriermq.core.model import Draft
from couriermq.storage.postgres.connection import Connection, connect
from couriermq.storage.postgres.facts import Q
from couriermq.storage.postgres.store import PostgresStore
from tests.support.engines import Rig

GROWING = ("message", "pack", "payload", "journal", "fifo", "dedup")
"""Tables that are empty one minute and full the next."""
WHOLE = {"packs_of_row", "singles_of_row", "is_used"}
"""Asked only when a journal row is damaged; and one that ends with the first row."""
LEADING = {
    "named_packs": "last", "named_singles": "seq", "change_packs": "last", "delete_packs": "last",
    "change_singles": "seq", "move_singles": "seq", "delete_singles": "seq", "payloads": "seq",
    "journal_rows": "start", "read_dedup": "dedup_id", "group_head": "grp", "group_singles": "grp",
    "given_singles": "id", "ready_singles": "due_at", "ended_packs": "due_at", "ended_singles": "due_at",
}  # fmt: skip
"""What it takes to find few entries where a queue has many."""
SCAN = re.compile(rf"Scan .*on ({'|'.join(GROWING)})\b")
STANDS = ["new", "swept while empty", "swept while full"]
TYPE = r"\${}::(\w+(?:\[\])?)"


async def plan_of(connection: Connection, sql: str) -> list[str]:
    """The one plan that a session makes for a statement, however often it is asked."""
    numbers = itertools.count(1)
    statement = re.sub("%s", lambda _: f"${next(numbers)}", sql)
    count = next(numbers) - 1
    kinds = [re.search(TYPE.format(number), statement) for number in range(1, count + 1)]
    types = ", ".join(kind[1] if kind else "unknown" for kind in kinds)
    await connection.execute(f"PREPARE asked {f'({types})' if count else ''} AS {statement}".encode(), prepare=False)
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    plan = await (await connection.execute(f"EXPLAIN EXECUTE asked {values}".encode(), prepare=False)).fetchall()
    await connection.execute("DEALLOCATE asked", prepare=False)
    return [str(line) for (line,) in plan]


def from_end_to_end(plan: list[str]) -> Iterator[str]:
    """Scans of a growing table that nothing leads through."""
    for line, detail in zip(plan, [*plan[1:], ""], strict=True):
        if SCAN.search(line) and not ("Index Cond" in detail or "TID Cond" in detail):
            yield line.strip()


@pytest.mark.parametrize("stand", STANDS)
async def test_no_query_goes_through_a_whole_table(node: Rig, stand: str) -> None:
    store = node.store
    assert isinstance(store, PostgresStore)
    connection = await connect(store.url)
    await bring_to(stand, node, connection)
    queries = {name: sql for name, sql in vars(Q).items() if name not in WHOLE}
    offenders = {name: list(from_end_to_end(await plan_of(connection, sql))) for name, sql in queries.items()}
    assert len(offenders) > 50
    assert {name: scans for name, scans in offenders.items() if scans} == {}
    await connection.close()


@pytest.mark.parametrize("stand", STANDS)
async def test_what_is_named_is_found_by_its_name(node: Rig, stand: str) -> None:
    store = node.store
    assert isinstance(store, PostgresStore)
    connection = await connect(store.url)
    await bring_to(stand, node, connection)
    plans = {name: await plan_of(connection, getattr(Q, name)) for name in LEADING}
    conditions = {name: [line for line in plan if "Index Cond" in line] for name, plan in plans.items()}
    strays = [name for name, column in LEADING.items() if not any(f"{column} " in line for line in conditions[name])]
    assert strays == []
    await connection.close()


async def bring_to(stand: str, node: Rig, connection: Connection) -> None:
    if stand == "swept while full":
        await node.create("orders")
        await node.send_all("orders", [Draft(body=b"x", id=str(n)) for n in range(300)] + [Draft(body=b"x")] * 300)
        await node.receive("orders", limit=400)
    if stand != "new":
        for table in GROWING:
            await connection.execute(f"VACUUM ANALYZE {table}".encode(), prepare=False)
