"""`courier tenants …`; only root may."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from couriermq.cli.client import route
from couriermq.cli.connection import SERVER, Server
from couriermq.cli.exits import usage as bad_usage
from couriermq.cli.options import Flag, Yes, read_pairs
from couriermq.cli.quantities import show_instant
from couriermq.cli.screen import Column
from couriermq.core import quotas

app = App(name="tenants", help="Keep owners of queues apart; needs the root token.", help_epilogue="")

Json = dict[str, Any]
RATE = "requests_per_second"
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


Quotas = Annotated[
    list[str] | None,
    Parameter(
        name="--quota",
        metavar="NAME=LIMIT",
        help="A limit of the tenant's own in place of the server's, such as max_messages=100000; may be given again."
        f" Names: {', '.join(quotas.NAMES)}.",
    ),
]  # fmt: skip


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
    tenant: TenantId,
    /,
    *,
    alias: Aliases = None,
    delivery_allow: Networks = None,
    quota: Quotas = None,
    server: Server = SERVER,
) -> None:
    """Create a tenant under an id of your choice."""
    order = {
        "id": tenant,
        "aliases": read_pairs(alias, "an alias"),
        "delivery_allow": delivery_allow or [],
        "quotas": _read_quotas(quota),
    }
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
    if "quotas" in document:
        own = [f"{name}={limit}" for name, limit in document["quotas"].items() if limit is not None]
        facts.append(("quotas", " ".join(own) or "none of its own"))
    server.screen.sheet(f"tenant {tenant}", facts)


@app.command
def usage(tenant: TenantId, /, *, server: Server = SERVER) -> None:
    """Show what a tenant uses of each quota."""
    document = server.client.get(route("tenants", tenant, "quotas"))
    if server.json:
        server.screen.document(document)
        return
    columns = [Column("QUOTA"), Column("USED", right=True), Column("LIMIT", right=True)]
    rows = [[name, str(one["used"]), _limit_word(one["limit"])] for name, one in document["quotas"].items()]
    rows.append([RATE, "", _limit_word(document[RATE])])
    server.screen.table(columns, rows)


def _limit_word(limit: float | None) -> str:
    return "none" if limit is None else f"{limit:,}"


def _read_quotas(pairs: list[str] | None) -> dict[str, float]:
    limits: dict[str, float] = {}
    for name, text in read_pairs(pairs, "a quota").items():
        try:
            limits[name] = float(text) if name == RATE else int(text)
        except ValueError:
            raise bad_usage(f"--quota {name}={text}: the limit is a number") from None
    return limits


@app.command
def change(
    tenant: TenantId,
    /,
    *,
    alias: Aliases = None,
    no_aliases: Flag = False,
    delivery_allow: Networks = None,
    no_delivery_allow: Flag = False,
    quota: Quotas = None,
    no_quotas: Flag = False,
    server: Server = SERVER,
) -> None:
    """Replace a tenant's aliases, the networks that its listeners may be in, or its quotas.

    Parameters
    ----------
    no_aliases
        Leave the tenant without any aliases.
    no_delivery_allow
        Leave the tenant without networks of its own.
    no_quotas
        Leave the tenant without quotas of its own: the server's hold.
    """
    if (alias and no_aliases) or (delivery_allow and no_delivery_allow) or (quota and no_quotas):
        raise bad_usage("--no-aliases, --no-delivery-allow and --no-quotas exclude the options that they clear")
    order: Json = {}
    if alias or no_aliases:
        order["aliases"] = read_pairs(alias, "an alias")
    if delivery_allow or no_delivery_allow:
        order["delivery_allow"] = delivery_allow or []
    if quota or no_quotas:
        order["quotas"] = _read_quotas(quota)
    if not order:
        raise bad_usage("say what to change: --alias, --delivery-allow or --quota, or --no-… to clear one of them")
    document = server.client.patch(route("tenants", tenant), order)
    server.screen.tell(document, f"changed tenant {tenant}")


@app.command
def delete(tenant: TenantId, /, *, yes: Yes = False, server: Server = SERVER) -> None:
    """Delete a tenant that has no queues left, with its credentials."""
    server.screen.confirm(f"delete tenant {tenant} and its credentials?", yes=yes)
    server.client.delete(route("tenants", tenant))
    server.screen.tell({"deleted": tenant}, f"deleted tenant {tenant}")
