"""`courier version`."""

import platform
import sqlite3

from couriermq import __version__
from couriermq.cli.connection import Output
from couriermq.cli.screen import Screen


def version(*, json: Output = False) -> None:
    """Print the versions of Courier and of what it stands on."""
    screen = Screen(json=json)
    versions = {
        "courier": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": platform.platform(),
    }
    if json:
        screen.document(versions)
    else:
        screen.line(f"courier {__version__} (Python {versions['python']}, SQLite {versions['sqlite']})")
