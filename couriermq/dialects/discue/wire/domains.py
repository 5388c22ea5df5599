"""Domains on the wire: a host, and the file that proves who controls it."""

import msgspec

from couriermq.core.errors import Invalid
from couriermq.core.model import Json, Record
from couriermq.dialects.discue import limits
from couriermq.dialects.discue.wire.answers import path_of
from couriermq.dialects.discue.wire.reading import Named, read

RECORD = "discue.domain"


class DomainOrder(Named):
    hostname: str | None = None
    port: int | None = None


_order = msgspec.json.Decoder(DomainOrder)


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """The document of a record."""

    alias: str
    hostname: str
    port: int
    file_name: str
    file_content: str
    created_at: int
    """Of the challenge; it counts until `expires_at`."""
    expires_at: int
    verified_at: int | None = None

    @property
    def path(self) -> str:
        return f"{limits.CHALLENGE_PATH}/{self.file_name}"


class NewDomain(msgspec.Struct):
    alias: str
    hostname: str
    port: int


def read_new(body: bytes) -> NewDomain:
    order = read(_order, body)
    alias, hostname, port = order.called, order.hostname, order.port
    if alias is None or hostname is None or port is None:
        raise Invalid("a domain needs an alias (or name), a hostname and a port")
    if not limits.HOSTNAME.fullmatch(hostname):
        raise Invalid("a hostname has 4 to 253 letters, digits, dots and hyphens, without a protocol", field="hostname")
    if port not in limits.PORTS:
        raise Invalid(f"port is {port}; choose 80, 443 or from 1024 to 65535", field="port")
    return NewDomain(_check_alias(alias), hostname.lower(), port)


def read_alias(body: bytes, old: Domain) -> str:
    """The new alias, or the old one; host and port are for life."""
    order = read(_order, body)
    if order.hostname not in {None, old.hostname} or order.port not in {None, old.port}:
        raise Invalid("the hostname and port of a domain cannot be changed; create another", field="hostname")
    return old.alias if order.called is None else _check_alias(order.called)


def _check_alias(alias: str) -> str:
    if not limits.DOMAIN_ALIAS.fullmatch(alias):
        raise Invalid("an alias has 1 to 127 letters, digits, dots, underscores, hyphens and slashes", field="alias")
    return alias


def domain_of(record: Record) -> Domain:
    return msgspec.convert(record.document, Domain)


def domain_path(record: Record) -> str:
    return path_of("domains", record.id)


def write_domain(record: Record) -> dict[str, Json]:
    domain = domain_of(record)
    return {
        "id": record.id,
        "alias": domain.alias,
        "name": domain.alias,
        "hostname": domain.hostname,
        "port": domain.port,
        "challenge": {
            "https": {
                "file_content": domain.file_content,
                "file_name": domain.file_name,
                "context_path": limits.CHALLENGE_PATH,
                "created_at": domain.created_at,
                "expires_at": domain.expires_at,
            }
        },
        "verification": {"verified": domain.verified_at is not None, "verified_at": domain.verified_at or 0},
        "created_at": record.created_at,
        "updated_at": record.changed_at,
    }
