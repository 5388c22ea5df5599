"""discue.io as a dialect: who calls, what is served, and how a failure is told."""

from collections.abc import Sequence
from typing import Any

from couriermq.auth.principal import Principal
from couriermq.core.errors import CourierError, Throttled
from couriermq.core.model import Message, Queue
from couriermq.dialects.discue import access, errors
from couriermq.dialects.discue.api_keys import ApiKeys
from couriermq.dialects.discue.openapi import document
from couriermq.dialects.discue.quota import quota_headers
from couriermq.dialects.discue.routes import PREFIXES, routes
from couriermq.dialects.discue.view import show
from couriermq.dialects.discue.wire.answers import failed
from couriermq.web.call import Call, Header, Reply, Route
from couriermq.web.views import MessageView


class Discue:
    """Both generations of the API, under /v1 and bare."""

    name = "discue"
    prefixes: tuple[str, ...] = PREFIXES

    def __init__(self) -> None:
        self._keys = ApiKeys()
        self.routes: Sequence[Route] = routes(self._keys)

    def authenticate(self, call: Call) -> Principal:
        principal = access.authenticate(call)
        self._keys.note_use(principal.id, call.services.clock.now())
        return principal

    def answer_for(self, error: type[CourierError]) -> int | None:
        return errors.answer_for(error)

    def openapi(self) -> dict[str, Any]:
        return document()

    def show(self, call: Call, queue: Queue, message: Message) -> MessageView:
        return show(call, queue, message)

    def failure(self, error: CourierError, call: Call) -> Reply:
        status = errors.answer_for(type(error))
        assert status is not None, "a test proves that every error has an answer"
        if isinstance(error, Throttled):
            status = 403  # so many bad keys that this one was not even looked at
        headers: list[Header] = [(b"www-authenticate", b"ApiKey")] if status == 401 else []
        return failed(call, status, str(error), [*headers, *quota_headers(call)])

    def crash(self, call: Call) -> Reply:
        return failed(call, 500, None)
