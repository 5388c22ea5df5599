"""An engine's SQL, by name, as it stands in its queries.sql."""

import re
from importlib.resources import files
from types import SimpleNamespace

_NAMED = re.compile(r"^-- name: (\w+)\n(.*?);\s*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)
_COLUMNS = re.compile(r"\{(\w+)\}")


def load_queries(package: str, columns: dict[str, str] | None = None) -> SimpleNamespace:
    """Every query as an attribute; `{name}` stands for columns."""

    def text(sql: str) -> str:
        plain = _COMMENT.sub("", sql).strip()
        return _COLUMNS.sub(lambda found: (columns or {})[found[1]], plain) if columns else plain

    found = files(package).joinpath("queries.sql").read_text()
    return SimpleNamespace(**{name: text(sql) for name, sql in _NAMED.findall(found)})
