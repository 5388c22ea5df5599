"""Cloudflare Queues as a dialect: who calls, what is served, and how a failure is told."""

from collections.abc import Sequence
from typing import Any

from couriermq.auth.principal import Principal
from couriermq.core.errors import CourierError
from couriermq.core.model import Message, Queue
from couriermq.dialects.cloudflare import access, errors
from couriermq.dialects.cloudflare.errors import Answer, Code, Refused
from couriermq.dialects.cloudflare.openapi import document
from couriermq.dialects.cloudflare.routes import PREFIX, routes
from couriermq.dialects.cloudflare.view import show
from couriermq.dialects.cloudflare.wire.envelope import failed
from couriermq.web.call import Call, Header, Reply, Route
from couriermq.web.errors import RequestTooLarge
from couriermq.web.views import MessageView

TOO_LARGE = {Code.MESSAGE_SIZE_OUT_OF_BOUNDS, Code.BATCH_SIZE_OUT_OF_BOUNDS, Code.BATCH_COUNT_OUT_OF_BOUNDS}


class Cloudflare:
    name = "cloudflare"
    prefixes: tuple[str, ...] = (PREFIX,)

    def __init__(self) -> None:
        self.routes: Sequence[Route] = routes()

    def authenticate(self, call: Call) -> Principal:
        return access.authenticate(call)

    def answer_for(self, error: type[CourierError]) -> Answer | None:
        return errors.answer_for(error)

    def openapi(self) -> dict[str, Any]:
        return document()

    def show(self, call: Call, queue: Queue, message: Message) -> MessageView:
        return show(call, queue, message)

    def failure(self, error: CourierError, call: Call) -> Reply:
        if isinstance(error, Refused):
            return _told(call, error.status, error.code, str(error), hint=error.hint, pointer=error.pointer)
        answer = errors.answer_for(type(error))
        assert answer is not None, "a test proves that every error has an answer"
        code, field = _code(answer, error, call), getattr(error, "field", None)
        pointer = f"/{field}" if field else None
        if answer.sentence is None:
            return _told(call, answer.status, code, str(error), pointer=pointer)
        sentence = answer.sentence.format(error=error)
        return _told(call, answer.status, code, sentence, hint=str(error), pointer=pointer)

    def crash(self, call: Call) -> Reply:
        return _told(call, 500, Code.UNKNOWN_INTERNAL_ERROR, "Unknown Internal Error")


def _code(answer: Answer, error: CourierError, call: Call) -> int:
    if isinstance(error, RequestTooLarge) and call.path.rstrip("/").endswith("/batch"):
        return Code.BATCH_SIZE_OUT_OF_BOUNDS
    if _binding(call) and answer.code == Code.AUTHENTICATION:
        return Code.UNAUTHORIZED
    about_messages = _binding(call) or "messages" in _below_queue(call)
    return answer.message_code if about_messages and answer.message_code is not None else answer.code


def _binding(call: Call) -> bool:
    return "binding" in _below_queue(call)


def _below_queue(call: Call) -> list[str]:
    """What follows `/client/v4/accounts/{account}/queues/{queue}`; a call that found no route has no parameters."""
    segments = call.path.split("/")
    return segments[8:] if segments[5:6] == ["workers"] else segments[7:]


def _told(
    call: Call, status: int, code: int, sentence: str, *, hint: str | None = None, pointer: str | None = None
) -> Reply:
    headers: list[Header] = []
    if status == 409:
        headers.append((b"x-should-retry", b"false"))  # the SDKs would try a conflict twice more, in vain
    if _binding(call):
        if code in TOO_LARGE:
            status = 413
        headers += [
            (b"cf-queues-error-code", b"%d" % code),
            (b"cf-queues-error-cause", _header_value(sentence)),
        ]
    return failed(status, code, sentence, hint=hint, pointer=pointer, headers=headers)


def _header_value(sentence: str) -> bytes:
    return " ".join(sentence.split()).encode("ascii", "replace")
