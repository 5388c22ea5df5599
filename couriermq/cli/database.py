"""What the commands for an operator do with a store in PostgreSQL, be it one database or several."""

import asyncio
from pathlib import Path
from types import ModuleType

import msgspec

from couriermq.config import Settings
from couriermq.core.incarnations import Identity
from couriermq.core.sharding import HOME, Shard
from couriermq.storage.base import CannotOpen
from couriermq.storage.checking import Findings

EMBEDDED = "sqlite:"


def is_database(settings: Settings) -> bool:
    """Whether the data is in a database server and not in the data directory."""
    return settings.store != EMBEDDED


def examine(url: str) -> Findings:
    """Every sign of damage, and what was not looked at; raises CannotOpen where not even the home can be seen."""
    return asyncio.run(_examine(url))


def backup(url: str, target: Path) -> None:
    """A file a table; of several shards a directory each, and each as of its own moment. Raises CannotOpen."""
    asyncio.run(_backup(url, target))


def restore(url: str, source: Path) -> Findings:
    """Put a copy into an empty store; what is wrong with it then."""
    asyncio.run(_restore(url, source))
    return examine(url)


def begin_incarnation(url: str, *, reason: str) -> None:
    """Have each database begin a new incarnation at the next start; raises CannotOpen while a node is running."""
    asyncio.run(_begin_incarnation(url, reason))


def identities(url: str) -> list[tuple[str, Identity | None]]:
    """Which store each database is, by the names of the shards."""
    return asyncio.run(_identities(url))


async def _begin_incarnation(url: str, reason: str) -> None:
    care = _care()
    for shard in await _shards(url):
        await care.begin_incarnation(shard.url, reason=reason)


async def _identities(url: str) -> list[tuple[str, Identity | None]]:
    care, found = _care(), []
    for shard in await _shards(url):
        async with care.opened(shard.url) as connection:
            found.append((shard.name, await care.read_identity(connection)))
    return found


async def _examine(url: str) -> Findings:
    findings = Findings()
    care, shards = _care(), await _shards(url)
    for shard in shards:
        try:
            async with care.opened(shard.url) as connection:
                found: Findings = await care.examine(connection)
        except CannotOpen as error:
            found = Findings(damage=[str(error)])
        findings += found if len(shards) == 1 else found.of_part(f"shard {shard.name}")
    return findings


async def _backup(url: str, target: Path) -> None:
    care, shards = _care(), await _shards(url)
    for shard in shards:
        async with care.opened(shard.url) as connection:
            await care.backup(connection, target if len(shards) == 1 else target / shard.name)


async def _restore(url: str, source: Path) -> None:
    """Of several shards, each goes into the database whose address the home has noted; all must be empty before."""
    care, home = _care(), source / HOME.name
    if not home.is_dir():
        await care.restore(url, source)
        return

    async def look_at(shards: list[Shard]) -> None:
        for shard in _others(shards):
            try:
                await care.look_at_target(shard.url, source / shard.name)
            except CannotOpen as error:
                raise CannotOpen(f"shard {shard.name}: {error}") from None

    await care.restore(url, home, look_at)
    for shard in _others(await _shards(url)):
        await care.restore(shard.url, source / shard.name)


def _others(shards: list[Shard]) -> list[Shard]:
    return [shard for shard in shards if shard.number != HOME.number and not shard.is_removed]


async def _shards(url: str) -> list[Shard]:
    """All databases of a store, the home first."""
    care = _care()
    async with care.opened(url) as connection:
        shards = {shard.number: shard for shard in (HOME, *await care.shards(connection))}
    shards[HOME.number] = msgspec.structs.replace(shards[HOME.number], url=url)
    return [shard for _, shard in sorted(shards.items()) if not shard.is_removed]


def _care() -> ModuleType:
    try:
        from couriermq.storage.postgres import care  # noqa: PLC0415 - an extra that many do without
    except ImportError:
        raise CannotOpen("store is a PostgreSQL database, which needs the extra: install couriermq[postgres]") from None
    return care
