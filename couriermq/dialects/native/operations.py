"""What an operation of the native API is: a route, and all that a reader or a generated client must know of it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from couriermq.core.errors import CourierError
from couriermq.web.call import JSON_TYPE, NO_STORE, Handler, Header, Reply, Route

PREFIX = "/courier/v1"
TENANT = PREFIX + "/tenants/{tenant}"
QUEUE = TENANT + "/queues/{queue}"
EXCHANGE = TENANT + "/exchanges/{exchange}"

LOCATION = {"Location": "The address of what was created."}

encode = msgspec.json.Encoder().encode


class OneOf(msgspec.Struct, frozen=True):
    """A body, or an item of a batch, that takes one of several shapes."""

    shapes: tuple[Any, ...]


class Batch(msgspec.Struct, frozen=True):
    """A batch's answer, which holds one of the shapes for each item."""

    name: str
    shapes: tuple[Any, ...]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the API.

    `needs` says what the caller must be allowed to do; `takes` and `gives` are structs, or None for no body;
    `streams` are the media types that a 200 may have besides JSON, `takes_also` those that a request may have; `fails`
    holds the errors that are the operation's own, beyond those that every operation shares.
    """

    method: str
    path: str
    handler: Handler
    tag: str
    summary: str
    description: str = ""
    needs: str = ""
    query: type[msgspec.Struct] | None = None
    headers: Mapping[str, str] = {}
    takes: Any = None
    takes_also: tuple[str, ...] = ()
    body_optional: bool = False
    example: Any = None
    gives: Mapping[int, Any] = {}
    streams: tuple[str, ...] = ()
    answer_headers: Mapping[str, str] = {}
    fails: tuple[type[CourierError], ...] = ()
    public: bool = False
    waits: bool = False

    @property
    def id(self) -> str:
        return self.handler.__name__

    @property
    def route(self) -> Route:
        body_limit = None if self.takes is not None or self.takes_also else 0
        return Route(self.method, self.path, self.handler, public=self.public, body_limit=body_limit, waits=self.waits)


def ok(answer: object, *, secret: bool = False) -> Reply:
    """200; a `secret` answer must not be stored on its way."""
    return Reply(200, encode(answer), (JSON_TYPE, NO_STORE) if secret else (JSON_TYPE,))


def created(answer: object, *location: str, secret: bool = False) -> Reply:
    """201, with the address of the new thing where it has one."""
    headers: tuple[Header, ...] = (JSON_TYPE, NO_STORE) if secret else (JSON_TYPE,)
    if location:
        headers += ((b"location", "/".join(location).encode()),)
    return Reply(201, encode(answer), headers)


def gone() -> Reply:
    return Reply(204, b"", ())
