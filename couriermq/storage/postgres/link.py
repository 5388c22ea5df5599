"""Connections: how they are made, and what is asked over them in one round trip."""

import select
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import psycopg
from psycopg.conninfo import conninfo_to_dict

from couriermq.storage.base import CannotOpen
from couriermq.storage.postgres.identity import Guard
from couriermq.storage.postgres.wire import Connection, Rows, Step

OLDEST_VERSION = 150_000
DEFAULTS: dict[str, Any] = {
    "application_name": "courier",
    "connect_timeout": 5,
    # A standby is behind the truth: no decision is ever taken on one.
    "target_session_attrs": "read-write",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
SETTINGS = """
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SET enable_material = off; SET enable_memoize = off;
SET plan_cache_mode = force_generic_plan; SET jit = off;
SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3;
SET tcp_user_timeout = '10s';
SET idle_in_transaction_session_timeout = '15s'; SET lock_timeout = '10s';
"""
"""A queue is empty one minute and full the next: what the planner believes about its size is always out of date, so it
may only use indexes. A node that falls silent in the middle of a transaction must not hold its locks for long."""

__all__ = ["Connection", "Rows", "Step", "ask", "connect", "is_collision", "is_usable"]


async def connect(url: str, guard: Guard | None = None) -> Connection:
    """A connection that commits only when told to; a node's guard looks at it first."""
    given = {key: value for key, value in conninfo_to_dict(url).items() if value is not None}
    connection = await Connection.to(**{**DEFAULTS, **given})
    try:
        if connection.info.server_version < OLDEST_VERSION:
            raise CannotOpen(f"PostgreSQL {connection.info.server_version // 10_000} is too old; 15 is the oldest")
        await connection.execute(SETTINGS)
        if guard is not None:
            await guard.check(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


def is_usable(connection: Connection | None) -> TypeGuard[Connection]:
    """Whether a connection that lay idle is still there: the server says nothing unasked but farewell."""
    if connection is None or connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


async def ask(
    connection: Connection, steps: Sequence[Step], *, meanwhile: Callable[[], None] | None = None
) -> list[Rows]:
    """Send all the steps at once and wait once, doing something meanwhile; the rows of each."""
    return await connection.ask(steps, meanwhile=meanwhile)


def is_collision(error: psycopg.Error) -> bool:
    """Two transactions stood in each other's way and this one gave in: it can simply be tried again."""
    return error.sqlstate in {"40001", "40P01"} or error.diag.constraint_name == "held_pkey"
