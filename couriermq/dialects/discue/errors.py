"""How Discue says that something failed: a status and its title, never more.

The sentence that helps would be lost, so it travels beside the body, in a header.
"""

from couriermq.core import errors as core
from couriermq.core.errors import CourierError
from couriermq.web import errors as web

TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    413: "Payload Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Entity",
    423: "Locked",
    429: "Too Many Requests",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}
"""The vendor's, and three that HTTP itself asks for: 408, 410 and 413."""


class Held(core.InUse):
    """Somebody has received the message through another dialect and not settled it yet."""

    def __init__(self, message_id: str) -> None:
        super().__init__(message_id, "a receiver that holds it")


ERRORS: dict[type[CourierError], int] = {
    core.Invalid: 422,
    core.BodyTooLarge: 413,
    core.BatchTooLarge: 422,
    core.InvalidReceipt: 422,
    core.DeadLetterCycle: 422,
    core.NotFound: 404,
    core.Conflict: 409,
    core.AlreadyExists: 422,
    core.InUse: 409,
    core.QueuePaused: 423,
    core.LeaseLost: 423,
    Held: 423,
    core.Unauthenticated: 401,
    core.Forbidden: 403,
    core.QuotaExceeded: 403,
    core.StorageExceeded: 429,
    core.TooManyRequests: 429,
    core.OffsetGone: 410,
    core.Unavailable: 503,
    web.NoRoute: 404,
    web.MethodNotAllowed: 405,
    web.MalformedRequest: 400,
    web.RequestTooLarge: 413,
    web.RequestTimeout: 408,
    web.NotAcceptable: 406,
    web.UnsupportedMediaType: 415,
}


def answer_for(error: type[CourierError]) -> int | None:
    """The status of an error, or of the nearest parent that has one."""
    return next((ERRORS[kind] for kind in error.__mro__ if kind in ERRORS), None)
