"""The OpenAPI documents of the dialects, and the page that shows them; both work without the internet."""

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from couriermq.core.model import Json
from couriermq.web.call import Call, Dialect, Handler, Header, Reply, Route

FOLDER = Path(__file__).parent / "reference"
MEDIA = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
PREFIX_COUNT = 8
"""For how many path prefixes of proxies a page is kept ready."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SHIELDS: tuple[Header, ...] = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)


@runtime_checkable
class Documented(Protocol):
    """A dialect that can describe itself."""

    name: str

    def openapi(self) -> dict[str, Json]: ...


def documentation(dialects: Sequence[Dialect]) -> tuple[Route, ...]:
    """The routes of `/docs` and of `/openapi/{dialect}.json` for every dialect that offers a document."""
    documents = {dialect.name: dialect.openapi for dialect in dialects if isinstance(dialect, Documented)}
    return (
        page("/docs", "text/html; charset=utf-8", _file(FOLDER / "index.html")),
        *(page(f"/docs/{file.name}", MEDIA[file.suffix], _file(file)) for file in _assets()),
        page("/openapi", "application/json", lambda prefix: _index(documents, prefix)),
        *(page(f"/openapi/{name}.json", "application/json", _document(make)) for name, make in documents.items()),
    )


Maker = Callable[[str], bytes]
"""Makes a page for callers that find the server below a path prefix, which is mostly empty."""


def page(path: str, media: str, make: Maker) -> Route:
    """The route of a page that everybody may see, and that stays the same as long as the server runs."""
    return Route("GET", path, _serving(media, lru_cache(maxsize=PREFIX_COUNT)(make)), public=True)


def _file(file: Path) -> Maker:
    return lambda prefix: file.read_bytes()


def _serving(media: str, make: Maker) -> Handler:
    """A handler for a page that stays the same as long as the server runs."""

    async def serve_page(call: Call) -> Reply:
        body = make(call.origin.prefix)
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = ((b"content-type", media.encode()), (b"etag", tag.encode()), *_SHIELDS)
        if call.header(b"if-none-match") == tag:
            return Reply(304, b"", headers)
        return Reply(200, body, headers)

    return serve_page


def _assets() -> list[Path]:
    return sorted(file for file in FOLDER.iterdir() if file.suffix in MEDIA)


def _document(make: Callable[[], dict[str, Json]]) -> Maker:
    def encode(prefix: str) -> bytes:
        document = make()
        servers = [{**server, "url": prefix + server["url"]} for server in document.get("servers", ())]
        return msgspec.json.encode(document | {"servers": servers} if prefix else document)

    return encode


def _index(documents: dict[str, Callable[[], dict[str, Json]]], prefix: str) -> bytes:
    """Which documents there are, in the order in which the dialects stand."""
    listed = [
        {"dialect": name, "title": make().get("info", {}).get("title", name), "url": f"{prefix}/openapi/{name}.json"}
        for name, make in documents.items()
    ]
    return msgspec.json.encode({"documents": listed})
