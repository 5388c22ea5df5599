"""Credentials: ways into a tenant, each with its scopes."""

from couriermq.core.errors import CredentialNotFound, TenantNotFound
from couriermq.core.model import Action, Credential, Scope
from couriermq.dialects.native.access import require_grants, whole_tenant
from couriermq.dialects.native.operations import LOCATION, TENANT, Operation, created, gone, ok
from couriermq.dialects.native.wire import credentials as wire
from couriermq.dialects.native.wire.annotations import check_annotations
from couriermq.dialects.native.wire.paging import PageQuery, page_of
from couriermq.dialects.native.wire.reading import read, read_query
from couriermq.web.call import Call, Reply


async def list_credentials(call: Call) -> Reply:
    tenant = whole_tenant(call, Action.MANAGE)
    query = read_query(call, PageQuery)
    page, following = page_of(call.services.catalog.credentials(tenant.id), query, key=wire.cursor_of)
    return ok(wire.Credentials([wire.write_credential(credential) for credential in page], following))


async def create_credential(call: Call) -> Reply:
    tenant = whole_tenant(call, Action.MANAGE)
    new = read(wire.NEW_CREDENTIAL, call.body)
    require_grants(call.principal, [Scope(action) for action in Action] if new.scopes is None else new.scopes)
    credential, secret = await call.services.catalog.create_credential(
        tenant.id,
        new.name,
        scopes=new.scopes,
        expires_at=new.expires_at,
        requests_per_second=new.requests_per_second,
        annotations=check_annotations(new.annotations),
        principal=call.principal.id,
    )
    return created(wire.write_secret(credential, secret), call.path, credential.id)


async def read_credential(call: Call) -> Reply:
    return ok(wire.write_credential(_credential_for(call)))


async def change_credential(call: Call) -> Reply:
    credential = _credential_for(call)
    changes = wire.changes_of(read(wire.CREDENTIAL_CHANGE, call.body))
    check_annotations(changes.get("annotations", {}))
    require_grants(call.principal, changes.get("scopes", ()))
    credential = await call.services.catalog.change_credential(credential, principal=call.principal.id, **changes)
    return ok(wire.write_credential(credential))


async def delete_credential(call: Call) -> Reply:
    await call.services.catalog.delete_credential(_credential_for(call), principal=call.principal.id)
    return gone()


async def rotate_credential(call: Call) -> Reply:
    credential = _credential_for(call)
    require_grants(call.principal, credential.scopes)  # whoever gets the new secret gets the scopes with it
    credential, secret = await call.services.catalog.rotate_credential(credential, principal=call.principal.id)
    return ok(wire.write_secret(credential, secret))


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
        description="The answer holds the secret, which nobody can ask for again. A caller can hand out only what it"
        " has itself.",
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
        description="The old secret is refused from then on.",
        needs=NEEDS,
        gives={200: wire.SecretCredential},
        fails=NOT_FOUND,
    ),
)
