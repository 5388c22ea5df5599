"""Anypoint MQ as a dialect: its routes, its callers, its errors, its description."""

from collections.abc import Sequence
from typing import Any

from couriermq.auth.principal import Principal
from couriermq.core.errors import CourierError
from couriermq.core.model import Message, Queue
from couriermq.dialects.anypoint import errors, tokens
from couriermq.dialects.anypoint.openapi import document
from couriermq.dialects.anypoint.place import NAME
from couriermq.dialects.anypoint.routes import PREFIXES, routes
from couriermq.dialects.anypoint.stats import Stats
from couriermq.dialects.anypoint.view import show
from couriermq.web.call import Call, Reply, Route
from couriermq.web.views import MessageView


class Anypoint:
    """Broker, admin and stats of Anypoint MQ over one broker."""

    name = NAME
    prefixes = PREFIXES

    def __init__(self) -> None:
        self._routes = routes(Stats())

    @property
    def routes(self) -> Sequence[Route]:
        return self._routes

    def authenticate(self, call: Call) -> Principal:
        return tokens.bearer(call)

    def failure(self, error: CourierError, call: Call) -> Reply:
        return errors.failure(error, call)

    def crash(self, call: Call) -> Reply:
        return errors.crash(call)

    def answer_for(self, error: type[CourierError]) -> errors.Answer | None:
        return errors.answer_for(error)

    def openapi(self) -> dict[str, Any]:
        return document()

    def show(self, call: Call, queue: Queue, message: Message) -> MessageView:
        return show(call, queue, message)
