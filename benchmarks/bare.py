"""The yardstick: an ASGI application that does nothing but read JSON and write it back."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

Message = MutableMapping[str, Any]

HEADERS = [(b"content-type", b"application/json")]


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Answer 200 with the request's JSON, decoded and encoded again."""
    body = b""
    more = True
    while more:
        part = await receive()
        body += part.get("body", b"")
        more = part.get("more_body", False)
    reply = msgspec.json.encode(msgspec.json.decode(body)) if body else b""
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": reply})
