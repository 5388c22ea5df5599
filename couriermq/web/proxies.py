"""Where a request comes from and how its caller addresses the server, also behind reverse proxies.

Only a proxy in `trusted_proxies` may say so by `Forwarded` or `X-Forwarded-*`; from anybody else these headers mean
nothing. Proxies append: the right-most entries are the trusted ones, and the first entry from the right that is not
a trusted proxy is the client. What stands to the left of it was written by the client and is not read.
"""

import ipaddress
import re
from collections.abc import Sequence

import msgspec

Header = tuple[bytes, bytes]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

HOP_COUNT = 32
"""More entries than this are not looked at."""
IPV6_SITE_BITS = 64
"""One client usually has all addresses of such a network."""

_HOST = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?", re.ASCII)
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+){1,16}", re.ASCII)
_PREFIX_CHARS = 256
_PAIR = re.compile(r"""\s*([A-Za-z]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";,]*))\s*""", re.ASCII)


class Origin(msgspec.Struct, frozen=True):
    """The client's address, and the parts of the URL under which it has found the server, where a proxy gave them."""

    address: str
    scheme: str | None = None
    host: str | None = None
    prefix: str = ""


class Proxies:
    """The proxies that are trusted to name their client."""

    def __init__(self, networks: Sequence[str] = ()) -> None:
        self._networks: list[Network] = [ipaddress.ip_network(network) for network in networks]

    def __bool__(self) -> bool:
        return bool(self._networks)

    def origin(self, peer: str, headers: Sequence[Header]) -> Origin:
        """The origin of a request that came over a connection from `peer`."""
        if not self._networks or not self._trusts(_address(peer)):
            return Origin(peer)
        forwarded, hops_for = _joined(headers, b"forwarded"), _joined(headers, b"x-forwarded-for")
        hops = [_parse_element(text) for text in _split(forwarded)[-HOP_COUNT:]] if forwarded else []
        client, index = self._client(peer, [hop.get("for", "") for hop in hops])
        if hops_for:
            seen = self._client(peer, hops_for.split(",")[-HOP_COUNT:])
            if hops and seen[0] != client:
                return Origin(peer)  # one of the two came from the client: the proxy sets the other and passes this on
            client, index = seen
        nearest = hops[max(index, -len(hops))] if hops else {}
        scheme = nearest.get("proto") or _pick(_joined(headers, b"x-forwarded-proto"), index)
        host = nearest.get("host") or _pick(_joined(headers, b"x-forwarded-host"), index)
        return _origin(client, scheme, host, _pick(_joined(headers, b"x-forwarded-prefix"), index))

    def _client(self, peer: str, hops: Sequence[str]) -> tuple[str, int]:
        """The right-most address that is no trusted proxy, and the place of its entry counted from the right, -1 first.

        An entry that is no address, such as `unknown`, ends the search at the proxy that wrote it.
        """
        client, index = peer, -1
        for place, hop in enumerate(reversed(hops), start=1):
            address = _address(hop)
            if address is None:
                break
            client, index = str(address), -place
            if not self._trusts(address):
                break
        return client, index

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


def site_of(address: str) -> str:
    """What a client's address is counted as: an IPv4 address, or the network of an IPv6 address."""
    parsed = _address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, IPV6_SITE_BITS), strict=False))
    return address if parsed is None else str(parsed)


def _origin(client: str, scheme: str, host: str, prefix: str) -> Origin:
    """Only parts that are well formed; they go into links."""
    prefix = prefix.rstrip("/")
    sound = len(prefix) <= _PREFIX_CHARS and _PREFIX.fullmatch(prefix)
    return Origin(
        client,
        scheme.lower() if scheme.lower() in {"http", "https"} else None,
        host if _HOST.fullmatch(host) else None,
        prefix if sound else "",
    )


def _address(text: str) -> Address | None:
    """An address as headers and sockets write it: with or without a port, brackets or a zone."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _joined(headers: Sequence[Header], name: bytes) -> str:
    return ",".join(value.decode("latin-1") for known, value in headers if known == name)


def _pick(text: str, index: int) -> str:
    """The value that belongs to the client's entry; a proxy that sets the header anew leaves only one."""
    values = [value.strip() for value in text.split(",")]
    return values[max(index, -len(values))]


def _split(text: str) -> list[str]:
    """The elements of a `Forwarded` header; a comma between quotes separates nothing."""
    elements, start, quoted = [], 0, False
    for place, letter in enumerate(text):
        if letter == '"' and (not quoted or text[place - 1] != "\\"):
            quoted = not quoted
        elif letter == "," and not quoted:
            elements.append(text[start:place])
            start = place + 1
    return [*elements, text[start:]]


def _parse_element(text: str) -> dict[str, str]:
    """The parameters of one element; an element that is not well formed has none."""
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        pair = _PAIR.match(text, place)
        if pair is None:
            return {}
        found[pair[1].lower()] = pair[3] if pair[2] is None else re.sub(r"\\(.)", r"\1", pair[2])
        place = pair.end()
        if place < len(text) and text[place] != ";":
            return {}
        place += 1
    return found
