"""The engine's SQL, by name, as it stands in queries.sql, where `:name` is a parameter."""

import re
from importlib.resources import files
from types import SimpleNamespace

_NAMED = re.compile(r"^-- name: (\w+)\n(.*?);\s*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_COLUMNS = re.compile(r"\{(\w+)\}")

FACTS = "seq, queue, id, state, due_at, attempts, lease_no, entered_at, discard_at, size, grp, origin, death"
"""What decisions are made from; `rows.Row` takes them in this order."""
WHOLE = f"{FACTS}, content"
BUNDLE = "queue, seq, seqs, ids, ats, sizes, contents"
"""What waits together, as `bundles.unpack` wants it."""
HELD = "queue, lease_no, due_at, seqs, ids, ats, sizes, places, contents"
"""What was leased together, as `held.Hand` wants it."""
COLUMNS = {"facts": FACTS, "whole": WHOLE, "bundle": BUNDLE, "held": HELD}


def load(file: str) -> SimpleNamespace:
    """Every query as an attribute."""
    text = files(__package__).joinpath(file).read_text()
    return SimpleNamespace(**{name: _prepare(sql) for name, sql in _NAMED.findall(text)})


def _prepare(sql: str) -> str:
    whole = _COLUMNS.sub(lambda found: COLUMNS[found[1]], _COMMENT.sub("", sql).strip())
    return _PARAMETER.sub(r"%(\1)s", whole)


Q = load("queries.sql")
