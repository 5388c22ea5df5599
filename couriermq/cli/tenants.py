"""`courier tenants …`; only root may."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from couriermq.cli.client import route
from couriermq.cli.connection import SERVER, Server
from couriermq.cli.exits import usage
from couriermq.cli.options import Flag, Yes, read_pairs
from couriermq.cli.quantities import show_instant
from couriermq.cli.screen import Column

app = App(name="tenants", help="Keep owners of queues apart; needs the root token.", help_epilogue="")

Json = dict[str, Any]
TenantId = Annotated[str, Parameter(help="The tenant's id.", metavar="TENANT")]
Aliases = Annotated[
    list[str] | None,
    Parameter(
        name="--alias",
        metavar="DIALECT=ID",
        help="The id by which a dialect knows the tenant, such as cloudflare=023e1…; may be given again.",
    ),
]

Networks = Annotated[
    list[str] | None,
    Parameter(
        name="--delivery-allow",
        metavar="NETWORK",
        help="A network such as 10.0.0.0/8 that the tenant's listeners may be in; may be given again.",
    ),
]


@app.command(name="list")
def list_(*, server: Server = SERVER) -> None:
    """List all tenants."""
    tenants = server.every(route("tenants"), "tenants")
    if server.json:
        server.screen.document(tenants)
        return
    columns = [Column("TENANT", fold=True), Column("ALIASES", fold=True), Column("CREATED")]
    rows = [[tenant["id"], _alias_words(tenant), show_instant(tenant["created_at"])] for tenant in tenants]
    server.screen.table(columns, rows)


def _alias_words(tenant: Json) -> str:
    return " ".join(f"{dialect}={alias}" for dialect, alias in tenant["aliases"].items())


@app.command
def create(
    tenant: TenantId, /, *, alias: Aliases = None, delivery_allow: Networks = None, server: Server = SERVER
) -> None:
    """Create a tenant under an id of your choice."""
    order = {"id": tenant, "aliases": read_pairs(alias, "an alias"), "delivery_allow": delivery_allow or []}
    document = server.client.post(route("tenants"), order)
    server.screen.tell(document, f"created tenant {tenant}")


@app.command
def show(tenant: TenantId, /, *, server: Server = SERVER) -> None:
    """Show a tenant and its aliases."""
    document = server.client.get(route("tenants", tenant))
    if server.json:
        server.screen.document(document)
        return
    facts = [("created", show_instant(document["created_at"])), ("aliases", _alias_words(document) or "none")]
    if "delivery_allow" in document:
        facts.append(("delivery allow", " ".join(document["delivery_allow"]) or "none of its own"))
    server.screen.sheet(f"tenant {tenant}", facts)


@app.command
def change(
    tenant: TenantId,
    /,
    *,
    alias: Aliases = None,
    no_aliases: Flag = False,
    delivery_allow: Networks = None,
    no_delivery_allow: Flag = False,
    server: Server = SERVER,
) -> None:
    """Replace a tenant's aliases, or the networks that its listeners may be in.

    Parameters
    ----------
    no_aliases
        Leave the tenant without any aliases.
    no_delivery_allow
        Leave the tenant without networks of its own.
    """
    if (alias and no_aliases) or (delivery_allow and no_delivery_allow):
        raise usage("--no-aliases and --no-delivery-allow exclude --alias and --delivery-allow")
    order: Json = {}
    if alias or no_aliases:
        order["aliases"] = read_pairs(alias, "an alias")
    if delivery_allow or no_delivery_allow:
        order["delivery_allow"] = delivery_allow or []
    if not order:
        raise usage(
            "say what to change: --alias or --no-aliases for none, --delivery-allow or --no-delivery-allow for none"
        )
    document = server.client.patch(route("tenants", tenant), order)
    server.screen.tell(document, f"changed tenant {tenant}")


@app.command
def delete(tenant: TenantId, /, *, yes: Yes = False, server: Server = SERVER) -> None:
    """Delete a tenant that has no queues left, with its credentials."""
    server.screen.confirm(f"delete tenant {tenant} and its credentials?", yes=yes)
    server.client.delete(route("tenants", tenant))
    server.screen.tell({"deleted": tenant}, f"deleted tenant {tenant}")
