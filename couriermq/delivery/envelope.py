"""What a listener's deliveries have in common, worked out once for each version of the listener."""

import asyncio
from collections.abc import Mapping
from time import perf_counter

import msgspec

from couriermq.core.model import Listener, Message
from couriermq.delivery.authorization import Authorizer
from couriermq.delivery.client import Client
from couriermq.delivery.connection import RequestFailed
from couriermq.delivery.guard import Guard, Refused, Target
from couriermq.delivery.headers import event_lines, fixed_lines, message_lines
from couriermq.delivery.model import Answer


class Envelope(msgspec.Struct, frozen=True):
    """Where to send and the beginning of every request."""

    target: Target
    head: bytes


def envelope(listener: Listener, guard: Guard) -> Envelope:
    """Raises Invalid where the URL may not be delivered to."""
    target = guard.check_url(listener.url)
    settings = listener.settings
    start = f"POST {target.path} HTTP/1.1\r\nHost: {target.authority}\r\n".encode("ascii")
    return Envelope(target, start + fixed_lines(settings.headers, Authorizer.at_once(settings.authorization)))


class Postman:
    """Takes one message to one listener, once."""

    def __init__(self, client: Client, authorizer: Authorizer) -> None:
        self._client = client
        self._authorizer = authorizer

    async def deliver(
        self, listener: Listener, cover: Envelope, message: Message, *, queue_name: str, now: int
    ) -> Answer:
        """What the receiver answered; a failure of any kind is an answer too."""
        settings = listener.settings
        head = cover.head + message_lines(message, listener.secrets, now=now)
        if settings.cloudevents:
            head += event_lines(message, tenant=listener.tenant, queue=queue_name)
        oauth = settings.authorization if settings.authorization and settings.authorization["type"] == "oauth" else None
        timeout_ms = settings.timeout_ms
        if oauth is not None:
            started = perf_counter()
            token = await self._token(oauth, timeout_ms=timeout_ms)
            if isinstance(token, Answer):
                return token
            head += token
            # Both together must end before the lease does, or the message would be delivered twice at a time.
            timeout_ms = max(1, timeout_ms - round((perf_counter() - started) * 1_000))
        head += b"Content-Length: %d\r\n\r\n" % len(message.body)
        answer = await self._client.exchange(cover.target, head, message.body, timeout_ms=timeout_ms)
        if oauth is not None and answer.status == 401:
            self._authorizer.forget(oauth)
        return answer

    async def _token(self, oauth: Mapping[str, str], *, timeout_ms: int) -> bytes | Answer:
        """The line that proves us, or why there is none."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return b"Authorization: %b\r\n" % (await self._authorizer.header(oauth) or "").encode("ascii")
        except (RequestFailed, Refused) as error:
            return Answer(error=str(error))
        except TimeoutError:
            return Answer(error=f"no token within {timeout_ms} ms")
