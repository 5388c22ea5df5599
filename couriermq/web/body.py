"""Reading a request body: never more of it than is allowed, and not for ever."""

from couriermq.web.asgi import TIMED_OUT, Disconnected, Event, Receive
from couriermq.web.call import Call
from couriermq.web.errors import RequestTimeout, RequestTooLarge


async def read_body(call: Call, receive: Receive, limit: int) -> bytes:
    """The whole body; raises RequestTooLarge before more than `limit` bytes are in memory."""
    length = call.header(b"content-length")
    if length is None:
        if call.header(b"transfer-encoding") is None:
            return b""
    elif int(length) > limit:
        raise RequestTooLarge(limit)
    event = await receive()
    if event["type"] == "http.request" and not event.get("more_body"):
        body: bytes = event.get("body", b"")
        if len(body) > limit:
            raise RequestTooLarge(limit)
        return body
    return await _read_rest(event, receive, limit)


async def _read_rest(event: Event, receive: Receive, limit: int) -> bytes:
    chunks, size = [], 0
    while True:
        if event["type"] == TIMED_OUT:
            raise RequestTimeout
        if event["type"] != "http.request":
            raise Disconnected
        chunk = event.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise RequestTooLarge(limit)
        chunks.append(chunk)
        if not event.get("more_body"):
            return b"".join(chunks)
        event = await receive()
