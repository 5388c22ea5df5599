"""Which addresses deliveries may go to: those of the public internet, and the networks that the operator allows.

A name is resolved, every address is judged, and the address that was judged is the one that is dialled: nothing is
looked up twice. So it does not matter how a URL spells an address or what its name points to a moment later.

What a tenant is told never has an address that a name resolves to; the server's log has it.
"""

import asyncio
import ipaddress
import logging
import re
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from couriermq.core.errors import Invalid
from couriermq.core.redaction import HIDDEN

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

log = logging.getLogger(__name__)

URL_CHARS = 2_048
DEFAULT_PORTS = {"http": 80, "https": 443}
CHECK_SECONDS = 2.0
"""How long a caller that sets a URL waits for the name in it to be looked up."""
ALLOW = "delivery_allow lists the networks that may be delivered to"

REFUSED: dict[str, str] = {
    "0.0.0.0/8": "this host",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by a carrier",
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "a cloud's own",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "for documentation",
    "192.88.99.0/24": "a 6to4 relay",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "for benchmarks",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
    "::/128": "unspecified",
    "::1/128": "loopback",
    "64:ff9b::/96": "translated to IPv4",
    "64:ff9b:1::/48": "translated to IPv4",
    "100::/64": "for discarding",
    "2001::/23": "reserved",
    "2001:db8::/32": "for documentation",
    "2002::/16": "6to4",
    "3fff::/20": "for documentation",
    "5f00::/16": "for segment routing",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
}
_REFUSED = [(ipaddress.ip_network(network), reason) for network, reason in REFUSED.items()]
_PUBLIC_V6 = ipaddress.ip_network("2000::/3")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII | re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f\\]")


class Resolver(Protocol):
    """Turns a name into addresses."""

    async def resolve(self, host: str, port: int, *, tenant: str) -> list[str]:
        """Every address of the name, looked up for a tenant; raises OSError when there is none."""


class Refused(Exception):
    """Deliveries may not go there; the text says why."""


class Target(msgspec.Struct, frozen=True):
    """Where a request goes: what a URL says, taken apart, and for which tenant."""

    scheme: str
    host: str
    port: int
    path: str
    tenant: str = ""

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


class Guard:
    """Judges addresses by the ranges above, the operator's own list of networks, and what a tenant has beside it."""

    def __init__(
        self,
        resolver: Resolver,
        allow: Sequence[Network] = (),
        *,
        allow_of: Callable[[str], Sequence[str]] = lambda tenant: (),
        blocked_ports: Iterable[int] = (),
    ) -> None:
        self._resolver = resolver
        self._allow = tuple(allow)
        self._allow_of = allow_of
        self._blocked_ports = frozenset(blocked_ports)

    def check_url(self, url: str, *, tenant: str = "", field: str = "url") -> Target:
        """Take a URL apart; raises Invalid with a sentence where it can never be delivered to."""
        try:
            target = msgspec.structs.replace(read_url(url), tenant=tenant)
            self.check_port(target.port)
            if (literal := literal_address(target.host)) is not None:
                self.check(literal, tenant=tenant)
            elif _is_this_machine(target.host) and not self._allows_loopback(tenant):
                raise Refused(f"{target.host} is this machine itself; {_allowing('127.0.0.0/8')}")
        except Refused as error:
            raise Invalid(str(error), field=field) from None
        return target

    async def check_names(self, urls: Mapping[str, str], *, tenant: str) -> None:
        """Raise Invalid where the name in one of the URLs, given by their fields, has no address that is allowed.

        A name without an address may get one before the first delivery, and a name server may be slow: neither is held
        against a URL. The address that a name has then is judged when a request is made, whatever it was here.
        """
        found = await asyncio.gather(*(self._refusal_of(url, tenant, field) for field, url in urls.items()))
        for field, reason in zip(urls, found, strict=True):
            if reason is not None:
                raise Invalid(f"{reason}; {ALLOW}", field=field)

    async def _refusal_of(self, url: str, tenant: str, field: str) -> str | None:
        target = self.check_url(url, tenant=tenant, field=field)
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self.addresses(target)
        except Refused as error:
            return str(error)
        except (OSError, TimeoutError):
            return None
        return None

    def check_port(self, port: int) -> None:
        """Raise Refused for a port of a service that is not meant to be called by HTTP."""
        if port in self._blocked_ports:
            raise Refused(f"port {port} is one that nothing is delivered to; use another port")

    def check(self, address: Address, *, tenant: str = "") -> None:
        """Raise Refused unless the address is public or allowed."""
        judged = canonical(address)
        if any(judged in network for network in self._allowed(tenant) if network.version == judged.version):
            return
        if reason := refusal(judged):
            network = "127.0.0.0/8" if judged.is_loopback and judged.version == 4 else judged
            raise Refused(f"{address} is {reason}; {_allowing(network)}")

    async def addresses(self, target: Target) -> list[str]:
        """The addresses to dial, each of them judged; raises Refused when none may be, OSError when none is found."""
        self.check_port(target.port)
        if (literal := literal_address(target.host)) is not None:
            self.check(literal, tenant=target.tenant)
            return [str(literal)]
        found = await self._resolver.resolve(target.host, target.port, tenant=target.tenant)
        good = [str(address) for text in found if (address := self._judged(text, target)) is not None]
        if not found:
            raise OSError(f"{target.host} has no address")
        if not good:
            raise Refused(f"{target.host} resolves to an address that is not allowed")
        return good

    def _judged(self, text: str, target: Target) -> Address | None:
        """The address, unless nothing may be delivered to it: only the operator learns why."""
        try:
            address = ipaddress.ip_address(text)
            self.check(address, tenant=target.tenant)
        except ValueError:
            log.warning("%s of tenant %s has the unreadable address %r", target.host, target.tenant, text)
        except Refused as error:
            log.warning("nothing is delivered to %s of tenant %s: %s", target.host, target.tenant, error)
        else:
            return address
        return None

    def _allowed(self, tenant: str) -> tuple[Network, ...]:
        return (*self._allow, *networks(tuple(self._allow_of(tenant))))

    def _allows_loopback(self, tenant: str) -> bool:
        return any(network.is_loopback for network in self._allowed(tenant))


def _allowing(network: str | Address) -> str:
    """How an operator lets deliveries go there."""
    return (
        f"to allow it, start the server with COURIER_DELIVERY_ALLOW={network},"
        f" or have root run `courier tenants change TENANT --delivery-allow {network}`"
    )


@lru_cache(maxsize=1_000)
def networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    """Networks as the settings write them; raises ValueError for one that is none."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def _is_this_machine(host: str) -> bool:
    return f".{host.removesuffix('.')}".endswith(".localhost")


def canonical(address: Address) -> Address:
    """An IPv4 address that hides in an IPv6 one is judged as what it is."""
    return address.ipv4_mapped or address if isinstance(address, ipaddress.IPv6Address) else address


def refusal(address: Address) -> str | None:
    """Why an address is not one of the public internet, if so."""
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        return "bound to one interface"
    for network, reason in _REFUSED:
        if network.version == address.version and address in network:
            return reason
    if address.version == 6 and address not in _PUBLIC_V6:
        return "not public"
    return None


def literal_address(host: str) -> Address | None:
    """The address that a host spells, in any way that a system would read as one; None for a name."""
    host = host.removesuffix(".")
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:  # 2130706433, 0x7f.1, 0177.0.0.1
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def read_url(url: str) -> Target:
    """The parts of an http or https URL; raises Refused with the sentence that helps."""
    if len(url) > URL_CHARS or _UNPRINTABLE.search(url):
        raise Refused(f"a URL has at most {URL_CHARS} visible characters and no spaces")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused(f"{url!r} is not a URL") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise Refused("a URL starts with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise Refused("a URL carries no user and password; use the listener's authorization")
    if port == 0:
        raise Refused("0 is not a port")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if path == f"/{HIDDEN}":
        raise Refused("this URL is shown with its path hidden; write the whole URL, or leave it out to keep it")
    if not path.isascii():
        raise Refused("a path beyond ASCII is written with %")
    return Target(parts.scheme, _read_host(parts.netloc, parts.hostname), port or DEFAULT_PORTS[parts.scheme], path)


def _read_host(netloc: str, host: str | None) -> str:
    if not host:
        raise Refused("a URL names a host")
    if netloc.startswith("["):
        return _read_bracketed(host)
    try:
        ascii_host = host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise Refused(f"{host!r} is not the name of a host") from None
    if len(ascii_host) > 253 or not all(map(_LABEL.fullmatch, ascii_host.removesuffix(".").split("."))):
        raise Refused(f"{host!r} is not the name of a host")
    return ascii_host


def _read_bracketed(host: str) -> str:
    """Brackets hold an IPv6 address and nothing else; a zone is for one machine only."""
    try:
        return str(ipaddress.IPv6Address(host.replace("%25", "%")))
    except ValueError:
        raise Refused(f"[{host}] is not an IPv6 address") from None
