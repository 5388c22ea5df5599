"""The product's own pages, which belong to no dialect, and the last word on paths that nobody serves."""

from collections.abc import Sequence

import msgspec

from couriermq.auth.principal import Principal
from couriermq.core.errors import (
    Conflict,
    CourierError,
    Forbidden,
    NotFound,
    OffsetGone,
    QuotaExceeded,
    StorageExceeded,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from couriermq.web.call import Call, Reply, Route
from couriermq.web.errors import (
    MethodNotAllowed,
    NoRoute,
    NotAcceptable,
    RequestTimeout,
    RequestTooLarge,
    UnsupportedMediaType,
)

STATUS: dict[type[CourierError], int] = {
    Unauthenticated: 401,
    Forbidden: 403,
    NoRoute: 404,
    NotFound: 404,
    MethodNotAllowed: 405,
    NotAcceptable: 406,
    RequestTimeout: 408,
    Conflict: 409,
    OffsetGone: 410,
    RequestTooLarge: 413,
    UnsupportedMediaType: 415,
    QuotaExceeded: 403,
    StorageExceeded: 429,
    TooManyRequests: 429,
    Unavailable: 503,
    CourierError: 400,
}


class Product:
    """A dialect of plain JSON, `{"error": sentence}`, whose prefix is everything."""

    name = "courier"
    prefixes: tuple[str, ...] = ("",)

    def __init__(self, routes: Sequence[Route] = ()) -> None:
        self.routes = routes

    def authenticate(self, call: Call) -> Principal:
        return call.services.auth.bearer(call)

    def answer_for(self, error: type[CourierError]) -> int | None:
        return next((STATUS[kind] for kind in error.__mro__ if kind in STATUS), None)

    def failure(self, error: CourierError, call: Call) -> Reply:
        return Reply(self.answer_for(type(error)) or 400, msgspec.json.encode({"error": str(error)}))

    def crash(self, call: Call) -> Reply:
        return Reply(500, b'{"error":"something went wrong on our side"}')
