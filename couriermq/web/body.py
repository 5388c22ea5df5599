"""Reading a request body: never more of it than is allowed, and not for ever."""

from io import BytesIO

from couriermq.core.errors import Unavailable
from couriermq.web.asgi import OVERLOADED, TIMED_OUT, Disconnected, Event, Receive
from couriermq.web.call import Call
from couriermq.web.errors import RequestTimeout, RequestTooLarge, UnsupportedMediaType


async def read_body(call: Call, receive: Receive, limit: int) -> bytes:
    """The whole body; raises RequestTooLarge before more than `limit` bytes are in memory.

    With a limit of 0 the route takes no body, and a body that was sent stays unread.
    """
    headers = call.headers
    length = headers.get(b"content-length")
    if length is None:
        if b"transfer-encoding" not in headers:
            return b""
    elif length == b"0":
        return b""
    if not limit:
        return b""
    if b"content-encoding" in headers:
        _check_encoding(call)
    if length is not None and int(length) > limit:
        raise RequestTooLarge(limit)
    event = await receive()
    if event["type"] == "http.request" and not event.get("more_body"):
        body: bytes = event.get("body", b"")
        if len(body) > limit:
            raise RequestTooLarge(limit)
        return body
    return await _read_rest(event, receive, limit)


def _check_encoding(call: Call) -> None:
    encoding = call.header(b"content-encoding")
    if encoding is not None and encoding.strip().lower() not in {"", "identity"}:
        raise UnsupportedMediaType(f"sent without Content-Encoding: {encoding!r} is not decompressed here")


async def _read_rest(event: Event, receive: Receive, limit: int) -> bytes:
    body = BytesIO()  # it hands its buffer out without a copy
    while True:
        if event["type"] == OVERLOADED:
            raise Unavailable("the server holds as many request bytes as it may; send the request again later")
        if event["type"] == TIMED_OUT:
            raise RequestTimeout
        if event["type"] != "http.request":
            raise Disconnected
        chunk = event.get("body", b"")
        if body.tell() + len(chunk) > limit:
            raise RequestTooLarge(limit)
        body.write(chunk)
        if not event.get("more_body"):
            return body.getvalue()
        event = await receive()
