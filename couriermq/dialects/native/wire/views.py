"""One message as every dialect shows it, on the wire."""

import msgspec

from couriermq.core.model import Json
from couriermq.web.views import Command


class DialectViews(msgspec.Struct):
    """The message in each dialect's JSON, and lines for a shell; very large bodies are cut."""

    dialects: dict[str, Json]
    curl: dict[str, list[Command]]
    body_truncated: bool
