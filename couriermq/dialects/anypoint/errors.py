"""Anypoint's answer to everything that can go wrong.

The three services speak differently: the broker says `status` and `statusMessage`, admin and stats say `message`, the
accounts service repeats the status as a number.
"""

from collections.abc import Sequence

import msgspec

from couriermq.core import errors as core
from couriermq.core.errors import CourierError
from couriermq.dialects.anypoint.wire import FAILURE, Outcome, failed
from couriermq.web import errors as web
from couriermq.web.call import JSON_TYPE, Call, Header, Reply


class Answer(msgspec.Struct, frozen=True):
    """`sentence` replaces the error's own text, `broker` does so in the broker's answers only."""

    status: int
    sentence: str | None = None
    broker: str | None = None


ERRORS: dict[type[CourierError], Answer] = {
    core.Invalid: Answer(400),
    core.BodyTooLarge: Answer(413, "Payload too large"),
    core.BatchTooLarge: Answer(400),
    core.InvalidReceipt: Answer(400, "LockId: {receipt} provided is invalid"),
    core.DeadLetterCycle: Answer(400),
    core.TenantNotFound: Answer(404, "environment not found", broker="Environment not found"),
    core.QueueNotFound: Answer(404, "queue not found", broker="Destination not found"),
    core.ExchangeNotFound: Answer(404, "exchange not found", broker="Destination not found"),
    core.BindingNotFound: Answer(404, "binding not found"),
    core.MessageNotFound: Answer(404, "message not found", broker="Message not found"),
    core.CredentialNotFound: Answer(404, "client not found"),
    core.NotFound: Answer(404, "not found"),  # whatever else Courier knows and Anypoint does not
    core.Conflict: Answer(409),
    core.AlreadyExists: Answer(409),
    core.InUse: Answer(409),
    core.QueuePaused: Answer(503),
    core.LeaseLost: Answer(400, "LockId: {receipt} provided is expired"),
    core.Unauthenticated: Answer(401),
    core.Forbidden: Answer(403),
    core.QuotaExceeded: Answer(429),
    core.TooManyRequests: Answer(429),
    core.OffsetGone: Answer(503),
    core.Unavailable: Answer(503),
    web.NoRoute: Answer(404),
    web.MethodNotAllowed: Answer(405),
    web.MalformedRequest: Answer(400),
    web.RequestTooLarge: Answer(413, "Payload too large"),
    web.RequestTimeout: Answer(408),
    web.NotAcceptable: Answer(406),
    web.UnsupportedMediaType: Answer(415),
}

CRASH = "an error on our side; the request can be tried again"


def answer_for(error: type[CourierError]) -> Answer | None:
    """The entry of the class itself, else of the nearest class above it."""
    return next((ERRORS[c] for c in error.__mro__ if c in ERRORS), None)


def sentence(error: CourierError, *, broker: bool = True) -> str:
    """One sentence that tells the caller what was wrong, in Anypoint's words where it has any."""
    answer = answer_for(type(error))
    text = answer and ((answer.broker if broker else None) or answer.sentence)
    if not text:
        return str(error)
    return text.format(**vars(error)) if "{" in text else text


def failure(error: CourierError, call: Call) -> Reply:
    answer = answer_for(type(error)) or Answer(400)
    return _say(call, answer.status, sentence(error, broker=_is_broker(call)), _headers(error))


def crash(call: Call) -> Reply:
    return _say(call, 500, CRASH, (JSON_TYPE,))


def _say(call: Call, status: int, text: str, headers: Sequence[Header]) -> Reply:
    if _is_broker(call):
        body: object = _broker_failure(call, text)
    elif call.path.startswith("/accounts/"):
        body = {"status": status, "message": "Unauthorized" if status == 401 else text}
    else:
        body = {"message": text}
    return Reply(status, msgspec.json.encode(body), headers)


def _is_broker(call: Call) -> bool:
    return call.path.startswith("/api/")


def _broker_failure(call: Call, text: str) -> Outcome | dict[str, str]:
    message_id = call.params.get("message")
    return failed(message_id, text) if message_id else {"status": FAILURE, "statusMessage": text}


def _headers(error: CourierError) -> Sequence[Header]:
    match error:
        case core.TooManyRequests() | core.StorageExceeded() | core.Unavailable():
            return (JSON_TYPE, (b"retry-after", b"%d" % max(1, -(-error.retry_after_ms // 1_000))))
        case core.QueuePaused():
            return (JSON_TYPE, (b"retry-after", b"1"))
    return (JSON_TYPE,)
