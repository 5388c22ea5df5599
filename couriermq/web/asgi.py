"""Dealing with a client over ASGI: what it says, whether it is still there, and how to let it go."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeVar

from couriermq.web.call import Reply

T = TypeVar("T")
Event = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

TIMED_OUT = "courier.timed_out"
"""What our own protocol says instead of `http.request` when a body has taken too long."""
OVERLOADED = "courier.overloaded"
"""What it says when there is no memory for the body."""
HALF_CLOSED = "courier.half_closed"
"""What it says once when a client has sent its last byte: the client may have left, or it may read on."""
WATCH_AFTER_SECONDS = 0.05
"""A call that waits has usually answered by then; only after that do we look whether its client is still there."""


class Disconnected(Exception):
    """The client went away; our own protocol raises it when an answer is sent to a client that has left."""


async def watched(answer: Awaitable[T], receive: Receive, *, half_closed_is_gone: bool) -> T:
    """Await what may take long, and give it up with Disconnected when the client goes away.

    A client that has closed its sending side looks like one that has left until something is written to it.
    """
    loop, caller = asyncio.get_running_loop(), asyncio.current_task()
    watcher: asyncio.Task[None] | None = None
    gone = False

    async def watch() -> None:
        nonlocal gone
        left = {"http.disconnect", HALF_CLOSED} if half_closed_is_gone else {"http.disconnect"}
        while (await receive())["type"] not in left:
            pass
        gone = True
        if caller is not None:
            caller.cancel()

    def start() -> None:
        nonlocal watcher
        watcher = loop.create_task(watch())

    timer = loop.call_later(WATCH_AFTER_SECONDS, start)
    try:
        return await answer
    except asyncio.CancelledError:
        if gone:
            raise Disconnected from None
        raise
    finally:
        timer.cancel()
        if watcher is not None:
            watcher.cancel()


async def send_stream(reply: Reply, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a body as it comes into being; raises Disconnected when the client leaves."""
    body = reply.body
    assert not isinstance(body, bytes)

    async def pump() -> None:
        async for chunk in body:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    try:
        await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
        if scope["method"] != "HEAD":
            await watched(pump(), receive, half_closed_is_gone=False)
    finally:
        if (close := getattr(body, "aclose", None)) is not None:
            await close()
    await send({"type": "http.response.body", "body": b"", "more_body": False})
