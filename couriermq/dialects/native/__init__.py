"""The native dialect: our words one to one, a superset of what the other dialects can say."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from couriermq.auth.principal import Principal
from couriermq.core.errors import CourierError, OffsetGone
from couriermq.core.model import Json, Message, Queue
from couriermq.dialects.native import errors
from couriermq.dialects.native.openapi import document
from couriermq.dialects.native.operations import PREFIX
from couriermq.dialects.native.routes import ROUTES
from couriermq.dialects.native.sessions import PATH as SESSION
from couriermq.dialects.native.views import show
from couriermq.web.call import Call, Dialect, Reply, Route
from couriermq.web.views import MessageView

if TYPE_CHECKING:
    from couriermq.config import Settings


class Native:
    """What the CLI, the console and Spark speak."""

    name = "native"
    prefixes: tuple[str, ...] = (PREFIX, SESSION)

    @property
    def routes(self) -> Sequence[Route]:
        return ROUTES

    def authenticate(self, call: Call) -> Principal:
        """The caller by its token, or a browser by its cookie."""
        browser = None if b"authorization" in call.headers else call.services.sessions.admit(call)
        principal = browser or call.services.auth.bearer(call)
        principal.require_dialect(self.name)
        return principal

    def failure(self, error: CourierError, call: Call) -> Reply:
        if isinstance(error, OffsetGone) and not call.principal.is_root:
            return errors.failure(error, sentence=error.hidden_sentence)
        return errors.failure(error)

    def crash(self, call: Call) -> Reply:
        return errors.crash()

    def answer_for(self, kind: type[CourierError]) -> errors.Answer | None:
        return errors.answer_for(kind)

    def openapi(self) -> dict[str, Json]:
        return document()

    def show(self, call: Call, queue: Queue, message: Message) -> MessageView:
        return show(call, queue, message)


def dialect(settings: "Settings") -> Dialect:
    return Native()
