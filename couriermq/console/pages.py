"""The files of the console: `index.html` for every page, and what it loads under a path that has the files' hash.

A browser keeps hashed files for ever, because another version of them has another path. Everything is read and
compressed once, when the server starts.
"""

import gzip
import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from pathlib import Path

import msgspec

from couriermq import __version__
from couriermq.config import Settings
from couriermq.console.lean import lean
from couriermq.web.call import Call, Header, Reply, Route
from couriermq.web.errors import NoRoute

FOLDER = Path(__file__).parent
PATH = "/console"
PARTS = ("app", "style", "vendor")
MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
DEPTH = 6
"""How many segments a path of the console may have."""
PREFIX_COUNT = 8
"""For how many path prefixes of proxies the page is kept ready."""
HASH_CHARS = 16

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    " worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types courier"
)
_SHIELDS: tuple[Header, ...] = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_FOR_EVER: Header = (b"cache-control", b"public, max-age=31536000, immutable")
_ASK_AGAIN: Header = (b"cache-control", b"no-cache")
_VARIES: Header = (b"vary", b"accept-encoding")
_PRELOAD = re.compile(r"""<meta name="preload" content="([^"]*)">""")


class Asset(msgspec.Struct, frozen=True):
    """A file as it is sent."""

    media: str
    body: bytes
    packed: bytes


def is_there(folder: Path = FOLDER) -> bool:
    return (folder / "index.html").is_file()


class Console:
    """Serves the files of one folder."""

    def __init__(self, settings: Settings, store_id: str, folder: Path = FOLDER) -> None:
        self._settings = settings
        self._store_id = store_id
        self._template = (folder / "index.html").read_text()
        self._assets = dict(_read(folder))
        self.hash = _hash_of(self._assets)
        self._index = lru_cache(maxsize=PREFIX_COUNT)(self._write_index)

    @property
    def routes(self) -> list[Route]:
        """One route for each depth; the table of routes has no pattern for paths of any length."""
        names = [f"{{part{depth}}}" for depth in range(DEPTH)]
        return [
            Route("GET", "/".join((PATH, *names[:depth])), self.serve, public=True, trailing_slash=True)
            for depth in range(DEPTH + 1)
        ]

    async def serve(self, call: Call) -> Reply:
        parts = list(call.params.values())
        if not parts or not parts[0].startswith("~"):
            prefix = call.origin.prefix or self._settings.console_prefix or ""
            return _reply(call, self._index(prefix), _ASK_AGAIN)
        asset = self._assets.get("/".join(parts[1:])) if parts[0] == f"~{self.hash}" else None
        if asset is None:
            raise NoRoute(call.path)
        return _reply(call, asset, _FOR_EVER)

    def _write_index(self, prefix: str) -> Asset:
        assets = f"{prefix}{PATH}/~{self.hash}"
        values = {
            "prefix": prefix,
            "assets": assets,
            "version": __version__,
            "store": self._store_id,
            "read_only": str(self._settings.console_read_only).lower(),
            "hide_bodies": str(self._settings.console_hide_bodies).lower(),
        }
        preload = _PRELOAD.search(self._template)
        links = [f'<link rel="modulepreload" href="{escape(assets)}/{escape(name)}">' for name in _names(preload)]
        page = self._template.replace("{{preload}}", "\n    ".join(links))
        for name, value in values.items():
            page = page.replace(f"{{{{{name}}}}}", escape(value))
        return _asset("text/html; charset=utf-8", page.encode())


def _names(found: re.Match[str] | None) -> list[str]:
    return found[1].split() if found else []


def _read(folder: Path) -> Iterator[tuple[str, Asset]]:
    """The files that are served, by their paths below the folder."""
    for part in PARTS:
        for file in sorted((folder / part).rglob("*")):
            if file.is_file() and file.suffix in MEDIA:
                body = file.read_bytes()
                if part == "app":
                    body = lean(body.decode()).encode()
                yield file.relative_to(folder).as_posix(), _asset(MEDIA[file.suffix], body)


def _asset(media: str, body: bytes) -> Asset:
    return Asset(media, body, gzip.compress(body, mtime=0))


def _hash_of(assets: dict[str, Asset]) -> str:
    digest = hashlib.sha256()
    for name, asset in assets.items():
        digest.update(f"{name}\0{len(asset.body)}\0".encode() + asset.body)
    return digest.hexdigest()[:HASH_CHARS]


def _reply(call: Call, asset: Asset, caching: Header) -> Reply:
    tag = f'"{hashlib.sha256(asset.body).hexdigest()[:32]}"'
    headers = [(b"content-type", asset.media.encode()), (b"etag", tag.encode()), caching, _VARIES, *_SHIELDS]
    if call.header(b"if-none-match") == tag:
        return Reply(304, b"", headers)
    if not _takes_gzip(call.header(b"accept-encoding") or ""):
        return Reply(200, asset.body, headers)
    return Reply(200, asset.packed, [*headers, (b"content-encoding", b"gzip")])


def _takes_gzip(accepted: str) -> bool:
    for offer in accepted.lower().split(","):
        name, _, quality = offer.partition(";")
        if name.strip() in {"gzip", "*"}:
            return quality.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False
