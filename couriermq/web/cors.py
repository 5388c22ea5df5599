"""Cross-origin calls: which pages a browser may let talk to us."""

from collections.abc import Sequence

from couriermq.web.call import Header, Reply

METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
PREFLIGHT_SECONDS = b"600"


class Cors:
    """Answers preflights and marks replies for the origins that are allowed."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = {origin.encode() for origin in origins}

    def allows(self, origin: bytes | None) -> bool:
        return origin is not None and (b"*" in self._origins or origin in self._origins)

    def preflight(self, headers: Sequence[Header]) -> Reply | None:
        """The answer to a browser that asks first, still to be marked; None when it is no such question."""
        asked = dict(headers)
        if b"access-control-request-method" not in asked or not self.allows(asked.get(b"origin")):
            return None
        return Reply(
            204,
            headers=(
                (b"access-control-allow-methods", METHODS),
                (b"access-control-allow-headers", asked.get(b"access-control-request-headers", b"authorization")),
                (b"access-control-max-age", PREFLIGHT_SECONDS),
            ),
        )

    def marks(self, origin: bytes | None) -> tuple[Header, ...]:
        """What lets the browser hand the reply to the page."""
        if origin is None or not self.allows(origin):
            return ()
        return (
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"*"),
            (b"vary", b"origin"),
        )
