"""Signing a browser in and out, and tickets that open a browser which is signed in."""

import contextlib

from couriermq import __version__
from couriermq.auth.gate import SESSION_MS
from couriermq.auth.principal import Principal
from couriermq.console.session import is_same_origin, require_mark
from couriermq.core.errors import Forbidden, Invalid, TooManyRequests, Unauthenticated, Unavailable
from couriermq.dialects.native.operations import PREFIX, Operation, created, encode
from couriermq.dialects.native.wire import sessions as wire
from couriermq.dialects.native.wire.reading import read_optional
from couriermq.dialects.native.wire.tenants import name_of, write_principal
from couriermq.web.call import JSON_TYPE, NO_STORE, Call, Header, Reply
from couriermq.web.errors import MalformedRequest, NoRoute

PATH = "/console/session"


async def sign_in(call: Call) -> Reply:
    _check(call)
    ticket = read_optional(wire.SIGN_IN, call.body).ticket
    gate = call.services.auth
    principal = await gate.redeem_ticket(call, ticket) if ticket is not None else gate.bearer(call)
    principal.require_dialect("native")
    session = gate.issue_session(principal, shown=ticket or _bearer(call))
    call.services.audit.signed_in(call, principal)
    return _reply(call, principal, call.services.sessions.set_cookie(call, session))


async def read_session(call: Call) -> Reply:
    _check_enabled(call)
    principal = call.services.sessions.admit(call)
    if principal is None:
        raise Unauthenticated("nobody is signed in; sign in with a token")
    return _reply(call, principal)


async def sign_out(call: Call) -> Reply:
    _check(call)
    session = call.services.sessions.cookie_of(call)
    if session is not None:
        with contextlib.suppress(Unauthenticated):  # it has ended already
            await call.services.auth.end_session(session)
    return Reply(204, b"", (NO_STORE, call.services.sessions.remove_cookie(call)))


async def create_ticket(call: Call) -> Reply:
    _check_enabled(call)
    shown = _bearer(call) or call.services.sessions.cookie_of(call) or ""
    ticket, expires_at = call.services.auth.issue_ticket(call.principal, shown=shown)
    return created(wire.Ticket(ticket, expires_at, f"/console#ticket={ticket}"), secret=True)


def _check(call: Call) -> None:
    """A page of this server asks, or a program; never a page of somebody else."""
    _check_enabled(call)
    require_mark(call)
    from_browser = call.header(b"sec-fetch-site") or call.header(b"origin")
    if from_browser and not is_same_origin(call):
        raise Forbidden("sign in", "from a page of another origin")


def _check_enabled(call: Call) -> None:
    if not call.services.settings.console_enabled:
        raise NoRoute(call.path)


def _bearer(call: Call) -> str:
    return (call.header(b"authorization") or "").partition(" ")[2].strip()


def _reply(call: Call, principal: Principal, *headers: Header) -> Reply:
    settings, services = call.services.settings, call.services
    session = wire.Session(
        id=principal.id,
        name=name_of(principal, services.catalog),
        tenant=principal.tenant,
        scopes=write_principal(principal, services.catalog).scopes,
        expires_at=services.clock.now() + SESSION_MS,
        read_only=settings.console_read_only,
        hide_bodies=settings.console_hide_bodies,
        version=__version__,
        store=services.sessions.store_id,
    )
    return Reply(200, encode(session), (JSON_TYPE, NO_STORE, *headers))


SIGNING_IN = (Invalid, MalformedRequest, Unauthenticated, Forbidden, TooManyRequests, Unavailable)

OPERATIONS = (
    Operation(
        method="POST",
        path=PATH,
        handler=sign_in,
        tag="Console",
        summary="Sign a browser in",
        description="With `Authorization: Bearer` and a token, or with a ticket in the body. The answer sets a cookie,"
        " `HttpOnly` and `SameSite=Strict`, which the native API takes from pages of this server instead of a token;"
        " with anything but GET they must send the header `Courier-Console: 1`, as this call must. The session ends 12"
        " hours after its last use, with the secret it was made from, and with `DELETE`.",
        headers={"Courier-Console": "1"},
        takes=wire.SignIn,
        body_optional=True,
        example={"ticket": "…"},
        gives={200: wire.Session},
        fails=SIGNING_IN,
        public=True,
    ),
    Operation(
        method="GET",
        path=PATH,
        handler=read_session,
        tag="Console",
        summary="Say who is signed in",
        gives={200: wire.Session},
        fails=SIGNING_IN,
        public=True,
    ),
    Operation(
        method="DELETE",
        path=PATH,
        handler=sign_out,
        tag="Console",
        summary="Sign a browser out",
        description="The session ends on every node.",
        headers={"Courier-Console": "1"},
        gives={204: None},
        fails=(Forbidden, Unavailable),
        public=True,
    ),
    Operation(
        method="POST",
        path=PREFIX + "/console/tickets",
        handler=create_ticket,
        tag="Console",
        summary="Make a ticket that signs a browser in",
        description="For the caller's own credential. It is good once, for a minute: open `path`.",
        gives={201: wire.Ticket},
    ),
)
