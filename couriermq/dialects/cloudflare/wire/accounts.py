"""Users, tokens, accounts and memberships on the wire, as far as Courier has something to say about them."""

import re

import msgspec

from couriermq.auth.principal import Principal
from couriermq.core.model import Action, Tenant
from couriermq.dialects.cloudflare.ids import account_id, hex_of
from couriermq.dialects.cloudflare.wire.reading import instant

ACTIVE, ACCEPTED, STANDARD = "active", "accepted", "standard"

_NOT_IN_ADDRESS = re.compile(r"[^a-z0-9.-]+")


class TokenObject(msgspec.Struct):
    id: str
    status: str
    expires_on: str | msgspec.UnsetType = msgspec.UNSET


class UserObject(msgspec.Struct, kw_only=True):
    id: str
    email: str
    username: str
    first_name: str | None = None
    last_name: str | None = None
    two_factor_authentication_enabled: bool = False
    suspended: bool = False


class AccountSettings(msgspec.Struct):
    enforce_twofactor: bool = False


class AccountObject(msgspec.Struct):
    id: str
    name: str
    type: str
    created_on: str
    settings: AccountSettings


class Permission(msgspec.Struct):
    read: bool
    write: bool


class MembershipObject(msgspec.Struct):
    id: str
    status: str
    account: AccountObject
    roles: list[str]
    permissions: dict[str, Permission]


def write_token(principal: Principal) -> TokenObject:
    expires_on = msgspec.UNSET if principal.expires_at is None else instant(principal.expires_at)
    return TokenObject(hex_of(principal.id), ACTIVE, expires_on)


def write_user(principal: Principal, name: str) -> UserObject:
    """A credential has no address. The one shown cannot receive mail: its domain is reserved for that."""
    local = _NOT_IN_ADDRESS.sub("-", name.lower()).strip("-.")[:64] or hex_of(principal.id)
    return UserObject(id=hex_of(principal.id), email=f"{local}@courier.invalid", username=hex_of(principal.id))


def write_account(tenant: Tenant) -> AccountObject:
    return AccountObject(account_id(tenant), tenant.id, STANDARD, instant(tenant.created_at), AccountSettings())


def write_membership(tenant: Tenant, principal: Principal) -> MembershipObject:
    writes = principal.may_somewhere((Action.MANAGE,))
    reads = writes or principal.may_somewhere((Action.STATS,))
    roles = ["Super Administrator - All Privileges"] if principal.is_root else []
    return MembershipObject(
        hex_of(f"{principal.id}/{tenant.id}"),
        ACCEPTED,
        write_account(tenant),
        roles,
        {"queues": Permission(reads, writes)},
    )
