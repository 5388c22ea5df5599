"""The head of a request: what RFC 9110 and RFC 9112 require of it beyond what the parser checks."""

import re
from collections.abc import Iterable, Mapping

import httptools

from couriermq.web.call import Header

HEAD_BYTES = 64 * 1024
"""How long a request line and its headers may be."""
HEADER_COUNT = 256
"""How many headers there may be: a short one takes far more memory than it has bytes."""

SINGLE = frozenset(
    (
        b"host",
        b"authorization",
        b"content-length",
        b"content-type",
        b"transfer-encoding",
        b"x-api-key",
        b"x-auth-email",
        b"x-auth-key",
    )
)
"""Headers that a request may have once: two values would let a proxy and Courier act on different ones."""

_HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=%:\[\]-]*")
_UPGRADE = frozenset((b"connection", b"upgrade", b"http2-settings"))


class Refused(Exception):
    """The request cannot be served; `status` says why, the text is one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def check_head(version: str, single: Mapping[bytes, bytes]) -> None:
    """Raise Refused for a head that another reader could take for something else."""
    host = single.get(b"host")
    if host is None:
        if version == "1.1":
            raise Refused(400, "the request has no Host header; HTTP/1.1 requires one")
    elif not _HOST.fullmatch(host):
        raise Refused(400, "the Host header is not a host name with an optional port")
    if version not in {"1.1", "1.0"}:
        raise Refused(505, "the server supports HTTP/1.1 and HTTP/1.0 only")
    coding = single.get(b"transfer-encoding")
    if coding is not None:
        _check_coding(coding, version, has_length=b"content-length" in single)


def _check_coding(coding: bytes, version: str, *, has_length: bool) -> None:
    if version == "1.0":
        raise Refused(400, "Transfer-Encoding needs HTTP/1.1")
    if has_length:
        raise Refused(400, "the request has both Transfer-Encoding and Content-Length; send one of them")
    codings = [name.strip().lower() for name in coding.split(b",")]
    if codings[-1] != b"chunked":
        raise Refused(400, "the last transfer coding of a request must be chunked")
    if len(codings) > 1:
        raise Refused(501, "chunked is the only transfer coding that is supported; send the body without compression")


def without_upgrade(method: bytes, url: bytes, version: str, headers: Iterable[Header]) -> bytes:
    """The head again, without its offer to change the protocol."""
    kept = [b"%b %b HTTP/%b\r\n" % (method, url, version.encode())]
    for name, value in headers:
        if name not in _UPGRADE:
            kept.append(b"%b: %b\r\n" % (name, value))
        elif name == b"connection" and b"close" in value.lower():
            kept.append(b"connection: close\r\n")
    return b"".join(kept) + b"\r\n"


def origin_form(url: bytes) -> bytes:
    """The path and query of a URL that was given whole, as to a proxy."""
    parsed = httptools.parse_url(url)
    return (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")
