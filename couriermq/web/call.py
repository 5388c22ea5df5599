"""What a handler gets, what it gives back, and what a dialect is made of."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import parse_qs

import msgspec

from couriermq.auth.principal import Principal
from couriermq.core.errors import CourierError
from couriermq.core.numbers import Numbers
from couriermq.core.trace_context import traceparent_of
from couriermq.web.decoding import decode
from couriermq.web.errors import MalformedRequest
from couriermq.web.proxies import Origin

if TYPE_CHECKING:
    from couriermq.web.services import Services

T = TypeVar("T")
Header = tuple[bytes, bytes]

JSON_TYPE: Header = (b"content-type", b"application/json")
NO_STORE: Header = (b"cache-control", b"no-store")
"""Belongs to every reply that holds a secret."""


class Reply:
    """An HTTP answer. `body` is bytes, or an async iterator of bytes for a stream."""

    __slots__ = ("body", "headers", "status", "unsent")

    def __init__(
        self, status: int, body: bytes | AsyncIterator[bytes] = b"", headers: Sequence[Header] = (JSON_TYPE,)
    ) -> None:
        self.status = status
        self.body = body
        self.headers = headers
        self.unsent: Callable[[], Awaitable[None]] | None = None
        """What is done when the client has left before any of the answer could be written; a stream has none."""


class Call:
    """One request: read whole, matched to a route, its caller known. Query and headers are parsed when asked for."""

    __slots__ = (
        "_headers",
        "_origin",
        "_query",
        "attempt",
        "body",
        "method",
        "params",
        "path",
        "peer",
        "principal",
        "raw_headers",
        "raw_query",
        "services",
    )

    def __init__(
        self,
        *,
        method: str,
        path: str,
        raw_query: bytes,
        raw_headers: Sequence[Header],
        body: bytes,
        params: Mapping[str, str],
        services: "Services",
        principal: Principal,
        peer: str = "",
    ) -> None:
        self.method = method
        self.path = path
        self.raw_query = raw_query
        self.raw_headers = raw_headers
        self.body = body
        self.params = params
        self.services = services
        self.principal = principal
        self.peer = peer
        self.attempt: tuple[str, str] | None = None
        """What a wrong credential of this call was counted under, once it was."""
        self._origin: Origin | None = None
        self._headers: dict[bytes, bytes] | None = None
        self._query: dict[str, list[str]] | None = None

    @property
    def query(self) -> dict[str, list[str]]:
        """Every value of every query parameter, blank ones too."""
        if self._query is None:
            try:
                self._query = parse_qs(self.raw_query.decode("ascii"), keep_blank_values=True) if self.raw_query else {}
            except ValueError:
                raise MalformedRequest("the query string is not well formed") from None
        return self._query

    def argument(self, name: str) -> str | None:
        """The last value of a query parameter."""
        values = self.query.get(name)
        return values[-1] if values else None

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        """The last value of each header, by its lower-case name."""
        if self._headers is None:
            self._headers = dict(self.raw_headers)
        return self._headers

    def header(self, name: bytes) -> str | None:
        """A header by its lower-case name."""
        value = self.headers.get(name)
        return value.decode("latin-1") if value is not None else None

    @property
    def trace(self) -> str | None:
        """The trace context that messages of this call carry."""
        return traceparent_of(self.header(b"traceparent"))

    @property
    def origin(self) -> Origin:
        """Where the request comes from, as the connection or a trusted proxy tells."""
        if self._origin is None:
            self._origin = self.services.proxies.origin(self.peer, self.raw_headers)
        return self._origin

    @property
    def base_url(self) -> str:
        """What links to this server begin with: the URL under which the caller has found it, without a path of ours.

        It is only the path prefix where the caller has named no host.
        """
        origin = self.origin
        host = origin.host or self.header(b"host")
        if not host:
            return origin.prefix
        scheme = origin.scheme or ("https" if self.services.settings.tls_cert is not None else "http")
        return f"{scheme}://{host}{origin.prefix}"

    @property
    def numbers(self) -> Numbers:
        """The view that the caller has of the store's numbers."""
        return self.services.numbering.of(self.principal.tenant)

    def replace_headers(self, headers: Sequence[Header]) -> None:
        """Let handlers see other headers than those that were sent."""
        self.raw_headers = headers
        self._headers = None

    def json(self, decoder: "msgspec.json.Decoder[T]", *, halves: bool = False) -> T:
        """The body as the decoder's type; what does not fit raises MalformedRequest with the place and the reason."""
        return decode(decoder, self.body, misfit=_misfit, halves=halves)


def _misfit(error: msgspec.ValidationError) -> MalformedRequest:
    return MalformedRequest(f"the body does not fit: {error}")


Handler = Callable[[Call], Awaitable[Reply]]


class Route(msgspec.Struct, frozen=True):
    """`pattern` is a path with `{names}`; a literal segment wins over a name.

    A public route is served without a credential; its call's principal is ANONYMOUS.
    `body_limit` is in bytes; None stands for the server's own limit, and 0 for a route that takes no body and does not
    read one. GET and HEAD never read one.
    A route that waits (long poll) has its handler cancelled when the client goes away; any other runs to its end.
    With `trailing_slash` the path may also end in one.
    """

    method: str
    pattern: str
    handler: Handler
    public: bool = False
    body_limit: int | None = None
    waits: bool = False
    trailing_slash: bool = False


ANONYMOUS = Principal(id="anonymous", tenant="", scopes=())


class Dialect(Protocol):
    """One API over the broker: its routes, how its callers prove themselves, and how it says that something failed."""

    name: str
    prefixes: tuple[str, ...]
    """Paths under which an unknown route is answered in this dialect's words, the longest match wins."""

    @property
    def routes(self) -> Sequence[Route]: ...

    def authenticate(self, call: Call) -> Principal:
        """Find the credential in the call and have `call.services.auth` judge it; raises Unauthenticated."""

    def failure(self, error: CourierError, call: Call) -> Reply:
        """The dialect's own answer to any error of the tree."""

    def crash(self, call: Call) -> Reply:
        """The dialect's own answer to a bug of ours: status 500 and nothing about the inside."""
