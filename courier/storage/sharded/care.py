"""What an operator does with a store in PostgreSQL as a whole, be it one database or several."""

from pathlib import Path

import msgspec

from courier.core.sharding import HOME, Shard
from courier.storage.base import CannotOpen
from courier.storage.postgres import care
from courier.storage.postgres.link import Connection
from courier.storage.sharded.places import SHARD


async def check(url: str) -> list[str]:
    """Every sign of damage, one sentence each; raises CannotOpen where not even the home can be looked at."""
    findings: list[str] = []
    shards = await _shards(url)
    for shard in shards:
        try:
            async with care.opened(shard.url) as connection:
                found = await care.check(connection)
        except CannotOpen as error:
            found = [str(error)]
        findings += found if len(shards) == 1 else [f"shard {shard.name}: {one}" for one in found]
    return findings


async def backup(url: str, target: Path) -> None:
    """A file a table; of several databases a directory each, and each as of its own moment."""
    shards = await _shards(url)
    for shard in shards:
        async with care.opened(shard.url) as connection:
            await care.backup(connection, target if len(shards) == 1 else target / shard.name)


async def restore(url: str, source: Path) -> None:
    """Put a backup into an empty store; of several databases, each into the one whose address the home has noted."""
    home = source / HOME.name
    if not home.is_dir():
        await care.restore(url, source)
        return
    await care.restore(url, home)
    for shard in await _shards(url):
        if shard.number != HOME.number:
            await care.restore(shard.url, source / shard.name)


async def _shards(url: str) -> list[Shard]:
    async with care.opened(url) as connection:
        found = await _recorded(connection)
    shards = {shard.number: shard for shard in (HOME, *found)}
    shards[HOME.number] = msgspec.structs.replace(shards[HOME.number], url=url)
    return [shard for _, shard in sorted(shards.items()) if not shard.is_removed]


async def _recorded(connection: Connection) -> list[Shard]:
    rows = await connection.execute("SELECT document FROM record WHERE kind = %s AND NOT gone", (SHARD,))
    return [msgspec.msgpack.decode(document, type=Shard) for (document,) in await rows.fetchall()]
