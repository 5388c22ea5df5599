"""What the commands for an operator do with a store in PostgreSQL."""

import asyncio
from pathlib import Path
from types import ModuleType

from courier.config import Settings
from courier.storage.base import CannotOpen

EMBEDDED = "sqlite:"


def is_database(settings: Settings) -> bool:
    """Whether the data is in a database server and not in the data directory."""
    return settings.store != EMBEDDED


def check(url: str) -> list[str]:
    """Every sign of damage, one sentence each; raises CannotOpen."""
    found: list[str] = asyncio.run(_care().check(url))
    return found


def backup(url: str, target: Path) -> None:
    """A copy of one moment, a file a table; of several shards a directory each. Raises CannotOpen."""
    asyncio.run(_care().backup(url, target))


def restore(url: str, source: Path) -> list[str]:
    """Put a copy into an empty store; what is wrong with it then."""
    asyncio.run(_care().restore(url, source))
    return check(url)


def _care() -> ModuleType:
    try:
        from courier.storage.sharded import care  # noqa: PLC0415 - an extra that many do without
    except ImportError:
        raise CannotOpen("store is a PostgreSQL database, which needs the extra: install courier[postgres]") from None
    return care
