"""A small synchronous client of the native dialect: one connection kept alive, every refusal one clear sentence."""

import base64
import json
import select
import ssl
import time
import weakref
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from couriermq import __version__
from couriermq.cli.exits import Exit, Failure

Json = Any
Query = Mapping[str, str | int | list[str] | None]

PREFIX = "/courier/v1"
TIMEOUT_S = 30.0
PATIENCE_S = 60.0
"""How long a client keeps trying again when the server asks it to slow down."""

_CODES = {
    401: Exit.DENIED,
    403: Exit.DENIED,
    404: Exit.NOT_FOUND,
    429: Exit.UNAVAILABLE,
    502: Exit.UNAVAILABLE,
    503: Exit.UNAVAILABLE,
    504: Exit.UNAVAILABLE,
}


class Unreachable(Failure):
    """Nobody answered, or somebody who is not Courier."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, Exit.UNAVAILABLE)


class Refused(Failure):
    """The server's own sentence about why not; `status` is that of HTTP."""

    def __init__(self, status: int, problem: dict[str, Json], hint: str = "") -> None:
        super().__init__(sentence_of(problem) + hint, _CODES.get(status, Exit.FAILED))
        self.status = status
        self.problem = problem


def sentence_of(problem: dict[str, Json]) -> str:
    return str(
        problem.get("detail") or problem.get("title") or problem.get("error") or "the server refused without a reason"
    )


def route(*segments: str) -> str:
    """A path of the native dialect; a slash inside a name stays inside its segment."""
    return "/".join((PREFIX, *(quote(segment, safe="") for segment in segments)))


class Client:
    """Requests in, decoded JSON out; raises Refused and Unreachable."""

    def __init__(self, url: str, *, token: str | None = None, ca_file: str | None = None) -> None:
        self.url = url if "://" in url else f"http://{url}"
        self.token = _check_token(token)
        self._base = urlsplit(self.url).path.rstrip("/")
        self._connection = _connect_to(self.url, ca_file)
        weakref.finalize(self, self._connection.close)  # a command ends without closing its client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str, query: Query | None = None, *, wait_s: float = 0) -> Json:
        """`wait_s` is how long the server was asked to take over its answer."""
        return self.request("GET", path + _query_string(query), timeout_s=TIMEOUT_S + wait_s)

    def post(self, path: str, document: Json = None, *, wait_s: float = 0) -> Json:
        """`wait_s` is how long the server was asked to take over its answer."""
        return self.request("POST", path, document, timeout_s=TIMEOUT_S + wait_s)

    def put(self, path: str, document: Json) -> Json:
        return self.request("PUT", path, document)

    def patch(self, path: str, document: Json) -> Json:
        return self.request("PATCH", path, document)

    def delete(self, path: str) -> Json:
        return self.request("DELETE", path)

    def probe(self, path: str) -> tuple[int, str]:
        """The status of an answer and its words, whatever they are."""
        response, content = self._exchange("GET", path, None, TIMEOUT_S)
        return response.status, content[:200].decode(errors="replace").strip()

    def request(self, method: str, path: str, document: Json = None, *, timeout_s: float = TIMEOUT_S) -> Json:
        """One request; a server that asks for patience with 429 has done nothing yet, so it is asked again."""
        body = None if document is None else json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
        patience_s = PATIENCE_S
        while True:
            response, content = self._exchange(method, path, body, timeout_s)
            if response.status != 429 or patience_s <= 0:
                return self._read(response, content)
            pause_s = min(max(_retry_after_s(response), 0.1), patience_s)
            patience_s -= pause_s
            time.sleep(pause_s)

    def _exchange(self, method: str, path: str, body: bytes | None, timeout_s: float) -> tuple[HTTPResponse, bytes]:
        connection = self._connection
        if _is_stale(connection):
            connection.close()
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        try:
            connection.request(method, self._base + path, body, self._headers(body))
            # Closed here and not by its finalizer, in which Python drops an interrupt without a word.
            with connection.getresponse() as response:
                return response, response.read()
        except TimeoutError:
            connection.close()
            raise Unreachable(f"{self.url} did not answer within {timeout_s:.0f} seconds") from None
        except (OSError, HTTPException, UnicodeError) as error:
            connection.close()
            raise Unreachable(f"cannot reach {self.url}: {_reason(error)}") from None

    def _headers(self, body: bytes | None) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": f"courier-cli/{__version__}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    def _read(self, response: HTTPResponse, content: bytes) -> Json:
        kind = response.headers.get_content_type()
        if response.status < 300 and not content:
            return None
        if not kind.endswith("json"):
            raise Unreachable(f"{self.url} answered {response.status}, but not as Courier does; is COURIER_URL right?")
        document = _decode(content, self.url)
        if response.status >= 300:
            hint = "; set COURIER_TOKEN or pass --token" if response.status == 401 and not self.token else ""
            raise Refused(response.status, document if isinstance(document, dict) else {}, hint)
        return document


def _connect_to(url: str, ca_file: str | None) -> HTTPConnection:
    parts = urlsplit(url)
    try:
        if parts.scheme == "http" and parts.hostname:
            return HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
        if parts.scheme == "https" and parts.hostname:
            return HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT_S, context=_trust(ca_file))
    except (ValueError, HTTPException):
        pass  # no port has this number, or no host this name
    raise Failure(f"{url!r} is not a URL of a server; write it as http://127.0.0.1:8080", Exit.USAGE)


def _check_token(token: str | None) -> str | None:
    """The token without the line end that a file may have lent it; one that no header can carry is refused."""
    token = token.strip() if token else None
    if token and not (token.isascii() and token.isprintable()):
        raise Failure("the token holds characters that no token has; look at COURIER_TOKEN", Exit.USAGE)
    return token


def _trust(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise Failure(f"cannot read the certificates in {ca_file}: {error.strerror or error}", Exit.USAGE) from None


def _is_stale(connection: HTTPConnection) -> bool:
    """Whether the server has hung up meanwhile: asked before each request, for a POST must not be sent twice."""
    if connection.sock is None:
        return False
    readable, _, _ = select.select([connection.sock], [], [], 0)
    return bool(readable)


def _query_string(query: Query | None) -> str:
    given = {name: value for name, value in (query or {}).items() if value is not None}
    return "?" + urlencode(given, doseq=True) if given else ""


def _retry_after_s(response: HTTPResponse) -> float:
    try:
        return float(response.headers.get("Retry-After", "1"))
    except ValueError:
        return 1.0


def _decode(content: bytes, url: str) -> Json:
    try:
        return json.loads(content)
    except ValueError:
        raise Unreachable(f"{url} answered with something that is not JSON; is COURIER_URL right?") from None


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there; start it with `courier serve` or set COURIER_URL"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); pass --ca-file"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def body_of(message: dict[str, Json]) -> bytes:
    """The body of a message as the native dialect writes it."""
    if "body_base64" in message:
        return base64.b64decode(message["body_base64"])
    return str(message.get("body", "")).encode("utf-8", "surrogatepass")
