"""Credentials: ways into a tenant, each with its scopes."""

from typing import Any

import msgspec

from couriermq.core.errors import CredentialNotFound, TenantNotFound
from couriermq.core.model import USES, Action, Credential, Scope
from couriermq.dialects.native.access import whole_tenant
from couriermq.dialects.native.operations import LOCATION, TENANT, Operation, created, gone, ok
from couriermq.dialects.native.wire import credentials as wire
from couriermq.dialects.native.wire.annotations import check_credential_annotations
from couriermq.dialects.native.wire.paging import PageQuery, page_of
from couriermq.dialects.native.wire.reading import read, read_optional, read_query
from couriermq.web.call import Call, Reply

RIGHTS = frozenset({"scopes", "dialect_scopes", "expires_at", "requests_per_second"})
"""Who changes one of these grants what the credential then has; so does who enables it."""


async def list_credentials(call: Call) -> Reply:
    tenant = whole_tenant(call, Action.MANAGE)
    query = read_query(call, PageQuery)
    page, following = page_of(call.services.catalog.credentials(tenant.id), query, key=wire.cursor_of)
    return ok(wire.Credentials([wire.write_credential(credential) for credential in page], following))


async def create_credential(call: Call) -> Reply:
    tenant = whole_tenant(call, Action.MANAGE)
    new = read(wire.NEW_CREDENTIAL, call.body)
    scopes = [Scope(action) for action in USES] if new.scopes is None else new.scopes
    dialect_scopes: dict[str, tuple[str, ...]] = {str(name): listed for name, listed in new.dialect_scopes.items()}
    call.principal.require_grant(
        scopes,
        dialect_scopes=dialect_scopes,
        expires_at=new.expires_at,
        requests_per_second=new.requests_per_second,
    )
    credential, secret = await call.services.catalog.create_credential(
        tenant.id,
        new.name,
        scopes=scopes,
        dialect_scopes=dialect_scopes,
        expires_at=new.expires_at,
        requests_per_second=new.requests_per_second,
        annotations=check_credential_annotations(new.annotations),
        principal=call.principal.id,
    )
    return created(wire.write_secret(credential, secret), call.path, credential.id, secret=True)


async def read_credential(call: Call) -> Reply:
    return ok(wire.write_credential(_credential_for(call)))


async def change_credential(call: Call) -> Reply:
    credential = _credential_for(call)
    changes = wire.changes_of(read(wire.CREDENTIAL_CHANGE, call.body))
    check_credential_annotations(changes.get("annotations", {}))

    def change(present: Credential) -> dict[str, Any]:
        if changes.get("enabled") or RIGHTS & changes.keys():
            call.principal.require_grant_of(msgspec.structs.replace(present, **changes))
        return changes

    credential = await call.services.catalog.change_credential(credential, change, principal=call.principal.id)
    return ok(wire.write_credential(credential))


async def delete_credential(call: Call) -> Reply:
    await call.services.catalog.delete_credential(_credential_for(call), principal=call.principal.id)
    return gone()


async def rotate_credential(call: Call) -> Reply:
    overlap_ms = read_optional(wire.ROTATE, call.body).overlap_ms
    credential, secret = await call.services.catalog.rotate_credential(
        _credential_for(call),
        overlap_ms=overlap_ms,
        check=call.principal.require_grant_of,  # who gets the new secret gets the scopes with it
        principal=call.principal.id,
    )
    return ok(wire.write_secret(credential, secret), secret=True)


def _credential_for(call: Call) -> Credential:
    tenant = whole_tenant(call, Action.MANAGE)
    return call.services.catalog.credential(tenant.id, call.params["credential"])


CREDENTIALS = TENANT + "/credentials"
CREDENTIAL = CREDENTIALS + "/{credential}"
NEEDS = "manage, on all queues"
NOT_FOUND = (TenantNotFound, CredentialNotFound)

OPERATIONS = (
    Operation(
        method="GET",
        path=CREDENTIALS,
        handler=list_credentials,
        tag="Credentials",
        summary="List credentials",
        needs=NEEDS,
        query=PageQuery,
        gives={200: wire.Credentials},
        fails=(TenantNotFound,),
    ),
    Operation(
        method="POST",
        path=CREDENTIALS,
        handler=create_credential,
        tag="Credentials",
        summary="Create a credential",
        description="The answer holds the secret, which nobody can ask for again. A caller can grant only what it has"
        " itself: its own scopes, nothing that ends later than itself, and no higher rate.",
        needs=NEEDS,
        takes=wire.NewCredential,
        example={"name": "shop", "scopes": [{"action": "send", "queues": ["orders"]}]},
        gives={201: wire.SecretCredential},
        answer_headers=LOCATION,
        fails=(TenantNotFound,),
    ),
    Operation(
        method="GET",
        path=CREDENTIAL,
        handler=read_credential,
        tag="Credentials",
        summary="Read a credential",
        needs=NEEDS,
        gives={200: wire.Credential},
        fails=NOT_FOUND,
    ),
    Operation(
        method="PATCH",
        path=CREDENTIAL,
        handler=change_credential,
        tag="Credentials",
        summary="Change a credential, or disable it",
        description="Who changes its scopes, its end or its rate, or enables it, must have all that it then has.",
        needs=NEEDS,
        takes=wire.CredentialChange,
        example={"enabled": False},
        gives={200: wire.Credential},
        fails=NOT_FOUND,
    ),
    Operation(
        method="DELETE",
        path=CREDENTIAL,
        handler=delete_credential,
        tag="Credentials",
        summary="Delete a credential",
        needs=NEEDS,
        gives={204: None},
        fails=NOT_FOUND,
    ),
    Operation(
        method="POST",
        path=CREDENTIAL + "/rotate",
        handler=rotate_credential,
        tag="Credentials",
        summary="Give a credential a new secret",
        description="The old secret and the access tokens made from it are refused after `overlap_ms`, by default at"
        " once. The caller must have all scopes of the credential.",
        needs=NEEDS,
        takes=wire.RotateCredentialOrder,
        body_optional=True,
        example={"overlap_ms": 86_400_000},
        gives={200: wire.SecretCredential},
        fails=NOT_FOUND,
    ),
)
