"""A browser's session on the wire."""

from typing import Annotated

import msgspec
from msgspec import Meta

from couriermq.core.model import Scope
from couriermq.dialects.native.wire.reading import Order


class SignIn(Order):
    """A ticket; without one the call needs `Authorization: Bearer`."""

    ticket: Annotated[str, Meta(min_length=1, max_length=1_000)] | None = None


class Session(msgspec.Struct, kw_only=True):
    """Who is signed in, what the console lets them do, and when that ends unless they go on; root has no tenant."""

    id: str
    name: str
    tenant: str | None
    scopes: tuple[Scope, ...]
    expires_at: int
    read_only: bool
    hide_bodies: bool
    version: str
    store: str


class Ticket(msgspec.Struct):
    """Signs a browser in once, before `expires_at`, at `path`."""

    ticket: str
    expires_at: int
    path: str


SIGN_IN = msgspec.json.Decoder(SignIn)
