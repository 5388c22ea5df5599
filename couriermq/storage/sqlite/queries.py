"""The engine's SQL, by name, as it stands in queries.sql."""

import re
from importlib.resources import files
from types import SimpleNamespace

_NAMED = re.compile(r"^-- name: (\w+)\n(.*?);\s*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


def load() -> SimpleNamespace:
    """Every query as an attribute."""
    text = files(__package__).joinpath("queries.sql").read_text()
    return SimpleNamespace(**{name: _COMMENT.sub("", sql).strip() for name, sql in _NAMED.findall(text)})


Q = load()
