"""Bringing the schema up to date: one node does it, the others wait."""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable

from couriermq.storage.base import CannotOpen
from couriermq.storage.postgres.link import Connection

MIGRATION_LOCK = -4
LIVES = (
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid::bigint = %s AND objsubid = 2"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid())"
)
"""Whether a node runs on the store with this number: it holds advisory locks."""
_VERSION = re.compile(r"\d+")


FOLDER: Traversable = files(__package__).joinpath("migrations")


def migrations() -> list[tuple[int, str]]:
    """(version, SQL) of every schema step, in order."""
    found = [(_VERSION.match(file.name), file) for file in FOLDER.iterdir()]
    return sorted((int(match[0]), file.read_text()) for match, file in found if match)


async def space_of(connection: Connection) -> int:
    """The number under which this store's locks are taken: several stores may share a database, a schema each."""
    row = await (await connection.execute("SELECT current_schema()::regnamespace::oid::bigint")).fetchone()
    if row is None or row[0] is None:
        raise CannotOpen("the database has no schema to work in; create the one that search_path names")
    return int(row[0]) - 2**32 if row[0] >= 2**31 else int(row[0])


async def migrate(connection: Connection, space: int) -> None:
    """Run what is missing, one transaction a step; refuses a schema from the future."""
    await connection.execute("SELECT pg_advisory_lock(%s, %s)", (space, MIGRATION_LOCK))
    try:
        await _run_steps(connection)
    finally:
        if not connection.closed:
            await connection.execute("SELECT pg_advisory_unlock(%s, %s)", (space, MIGRATION_LOCK))


async def _run_steps(connection: Connection) -> None:
    present, steps = await version_of(connection), migrations()
    if present > steps[-1][0]:
        raise CannotOpen(
            f"the data was written by a newer Courier (schema {present}, this one knows {steps[-1][0]}); upgrade it"
        )
    for version, sql in steps:
        if version > present:
            async with connection.transaction():
                await connection.execute(sql.encode())
                await connection.execute("DELETE FROM schema_version")
                await connection.execute("INSERT INTO schema_version VALUES (%s)", (version,))


async def version_of(connection: Connection) -> int:
    await connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
    row = await (await connection.execute("SELECT version FROM schema_version")).fetchone()
    return int(row[0]) if row else 0
