"""What may be shown of things that hold secrets: to the journal, and to callers that may not manage them."""

import re
from collections.abc import Iterable, Mapping

from couriermq.core.model import Listener

HIDDEN = "…"
SECRET_FIELDS = frozenset({"token", "password", "client_secret"})
SHORTEST_SECRET = 4
"""Shorter values are found in ordinary text, and hiding them would only garble it."""


def redacted_url(url: str) -> str:
    """Scheme, host and port; a path, a query or a user may each be an API key."""
    scheme, authority, rest = _parts(url)
    origin = f"{scheme}://{authority.rpartition('@')[2]}"
    return origin + (rest if rest in {"", "/"} else f"/{HIDDEN}")


def redacted_authorization(authorization: Mapping[str, str] | None) -> dict[str, str] | None:
    """An authorization without what proves it."""
    if authorization is None:
        return None
    shown = {name: value for name, value in authorization.items() if name not in SECRET_FIELDS}
    if "token_url" in shown:
        shown["token_url"] = redacted_url(shown["token_url"])
    return shown


def secrets_of(listener: Listener) -> tuple[str, ...]:
    """Every value of a listener that a receiver could echo and nobody else should see, the longest first."""
    settings = listener.settings
    values = {*settings.headers.values()}
    values |= {value for name, value in (settings.authorization or {}).items() if name in SECRET_FIELDS}
    path, _, query = _parts(listener.url)[2].partition("?")
    values |= {path, query, *(pair.partition("=")[2] for pair in query.split("&"))}
    return tuple(sorted((value for value in values if len(value) >= SHORTEST_SECRET), key=len, reverse=True))


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret in it hidden."""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def _parts(url: str) -> tuple[str, str, str]:
    """Scheme, authority, and all that follows them."""
    scheme, _, rest = url.partition("://")
    end = match.start() if (match := re.search(r"[/?#\\]", rest)) else len(rest)
    return scheme, rest[:end], rest[end:]
