"""How Cloudflare says that something failed: one table from our errors to its status, code and sentence.

Where the vendor has a sentence of its own, clients may look for it: it stands alone in `errors`, and what we would
say stands in `messages`.
"""

import msgspec

from couriermq.core.errors import (
    AlreadyExists,
    BatchTooLarge,
    BodyTooLarge,
    Conflict,
    CourierError,
    DeadLetterCycle,
    Forbidden,
    InUse,
    Invalid,
    InvalidReceipt,
    NotFound,
    OffsetGone,
    QueueNotFound,
    QueuePaused,
    QuotaExceeded,
    RecordNotFound,
    StorageExceeded,
    TenantNotFound,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from couriermq.web.errors import (
    MalformedRequest,
    MethodNotAllowed,
    NoRoute,
    NotAcceptable,
    RequestTimeout,
    RequestTooLarge,
    UnsupportedMediaType,
)


class Code:
    """The vendor's numbers by the vendor's names, where it has them."""

    NONE = 0
    METHOD_NOT_AVAILABLE = 7001
    NO_ROUTE = 7003
    AUTHENTICATION = 10000
    BATCH_INVALID = 10013
    BODY_INVALID = 10026
    QUEUE_NOT_FOUND = 10104
    UNAUTHORIZED = 10106
    QUEUE_ID_MALFORMED = 10107
    CLIENT_DISCONNECTED = 10201
    BATCH_DELAY_INVALID = 10202
    MESSAGE_METADATA_INVALID = 10203
    MESSAGE_SIZE_OUT_OF_BOUNDS = 10204
    BATCH_SIZE_OUT_OF_BOUNDS = 10205
    BATCH_COUNT_OUT_OF_BOUNDS = 10206
    JSON_BODY_INVALID = 10207
    JSON_BODY_MALFORMED = 10208
    QUEUE_OVERLOADED = 10250
    STORAGE_LIMIT_EXCEEDED = 10251
    NOT_FOUND = 11000
    QUEUE_NAME_INVALID = 11003
    CONSUMER_EXISTS = 11004
    QUEUE_IN_USE = 11005
    QUEUE_NAME_TAKEN = 11009
    UNKNOWN_INTERNAL_ERROR = 15000
    CONSUMER_SETTINGS_INVALID = 100127
    QUEUE_SETTINGS_INVALID = 100128


class Refused(Invalid):
    """The vendor's own refusal, with the code and sentence that its clients know; `hint` says what to do instead."""

    def __init__(
        self, code: int, sentence: str, *, status: int = 400, hint: str | None = None, pointer: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.code = code
        self.status = status
        self.hint = hint
        self.pointer = pointer


class Answer(msgspec.Struct, frozen=True):
    """`message_code` is for calls about messages, `sentence` the vendor's own with the error's fields filled in."""

    status: int
    code: int
    message_code: int | None = None
    sentence: str | None = None


AUTHENTICATION_ERROR = "Authentication error"

ERRORS: dict[type[CourierError], Answer] = {
    Invalid: Answer(400, Code.BODY_INVALID, Code.JSON_BODY_INVALID),
    BodyTooLarge: Answer(400, Code.MESSAGE_SIZE_OUT_OF_BOUNDS),
    BatchTooLarge: Answer(400, Code.BATCH_COUNT_OUT_OF_BOUNDS),
    InvalidReceipt: Answer(400, Code.BODY_INVALID),
    DeadLetterCycle: Answer(400, Code.CONSUMER_SETTINGS_INVALID),
    NotFound: Answer(404, Code.NOT_FOUND),
    TenantNotFound: Answer(403, Code.AUTHENTICATION, sentence=AUTHENTICATION_ERROR),
    QueueNotFound: Answer(404, Code.NOT_FOUND, Code.QUEUE_NOT_FOUND),
    RecordNotFound: Answer(404, Code.NONE),
    Conflict: Answer(409, Code.BODY_INVALID),
    AlreadyExists: Answer(
        409,
        Code.QUEUE_NAME_TAKEN,
        sentence="Queue name '{error.name}' is already taken. Please use a different name and try again.",
    ),
    InUse: Answer(
        409,
        Code.QUEUE_IN_USE,
        sentence="Cannot delete queue '{error.name}' that serves as dead letter queue for consumers",
    ),
    QueuePaused: Answer(409, Code.NONE, sentence="queue_delivery_paused"),
    Unauthenticated: Answer(401, Code.AUTHENTICATION, sentence=AUTHENTICATION_ERROR),
    Forbidden: Answer(403, Code.AUTHENTICATION, sentence=AUTHENTICATION_ERROR),
    QuotaExceeded: Answer(403, Code.BODY_INVALID),
    StorageExceeded: Answer(429, Code.STORAGE_LIMIT_EXCEEDED),
    TooManyRequests: Answer(429, Code.QUEUE_OVERLOADED),
    OffsetGone: Answer(410, Code.NOT_FOUND),
    Unavailable: Answer(503, Code.UNKNOWN_INTERNAL_ERROR, Code.STORAGE_LIMIT_EXCEEDED),
    NoRoute: Answer(404, Code.NO_ROUTE, sentence="No route for the URI"),
    MethodNotAllowed: Answer(405, Code.METHOD_NOT_AVAILABLE),
    MalformedRequest: Answer(400, Code.BODY_INVALID, Code.JSON_BODY_MALFORMED),
    RequestTooLarge: Answer(413, Code.BODY_INVALID, Code.MESSAGE_SIZE_OUT_OF_BOUNDS),
    RequestTimeout: Answer(408, Code.CLIENT_DISCONNECTED),
    NotAcceptable: Answer(406, Code.BODY_INVALID),
    UnsupportedMediaType: Answer(415, Code.BODY_INVALID),
}


def answer_for(error: type[CourierError]) -> Answer | None:
    """The entry of an error or of the nearest parent that has one."""
    return next((ERRORS[kind] for kind in error.__mro__ if kind in ERRORS), None)
