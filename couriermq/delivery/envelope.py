"""What a listener's deliveries have in common, worked out once for each version of the listener."""

import asyncio
from collections.abc import Callable, Mapping
from time import perf_counter

import msgspec

from couriermq.core.model import Listener, Message
from couriermq.core.redaction import secrets_of
from couriermq.delivery.authorization import Authorizer
from couriermq.delivery.client import Client
from couriermq.delivery.connection import RequestFailed
from couriermq.delivery.guard import Guard, Refused, Target
from couriermq.delivery.headers import event_lines, fixed_lines, message_lines
from couriermq.delivery.model import Answer


class Envelope(msgspec.Struct, frozen=True):
    """Where to send, the beginning of every request, and what must not be written down of its answer."""

    target: Target
    head: bytes
    secrets: tuple[str, ...] = ()


def envelope(listener: Listener, guard: Guard) -> Envelope:
    """Raises Invalid where the URL may not be delivered to."""
    target = guard.check_url(listener.url, tenant=listener.tenant)
    settings = listener.settings
    start = f"POST {target.path} HTTP/1.1\r\nHost: {target.authority}\r\n".encode("ascii")
    authorization = Authorizer.at_once(settings.authorization)
    secrets = secrets_of(listener)
    if authorization is not None:
        secrets = (authorization.partition(" ")[2], *secrets)
    return Envelope(target, start + fixed_lines(settings.headers, authorization), secrets)


class Postman:
    """Takes one message to one listener, once."""

    def __init__(self, client: Client, authorizer: Authorizer) -> None:
        self._client = client
        self._authorizer = authorizer

    async def deliver(
        self,
        listener: Listener,
        cover: Envelope,
        message: Message,
        *,
        queue_name: str,
        now: int,
        wall: int,
        may_send: Callable[[], bool],
    ) -> Answer:
        """What the receiver answered; a failure of any kind is an answer too. Raises Withdrawn."""
        settings = listener.settings
        head = cover.head + message_lines(message, listener.secrets, now=now, wall=wall)
        if settings.cloudevents:
            head += event_lines(message, tenant=listener.tenant, queue=queue_name)
        oauth = settings.authorization if settings.authorization and settings.authorization["type"] == "oauth" else None
        timeout_ms, secrets = settings.timeout_ms, cover.secrets
        if oauth is not None:
            started = perf_counter()
            token = await self._token(oauth, listener.tenant, timeout_ms=timeout_ms)
            if isinstance(token, Answer):
                return token
            head += b"Authorization: %b\r\n" % token.encode("ascii")
            secrets = (token.partition(" ")[2], *secrets)
            # Both together must end before the lease does, or the message would be delivered twice at a time.
            timeout_ms = max(1, timeout_ms - round((perf_counter() - started) * 1_000))
        head += b"Content-Length: %d\r\n\r\n" % len(message.body)
        answer = await self._client.exchange(
            cover.target, head, message.body, timeout_ms=timeout_ms, may_send=may_send, secrets=secrets
        )
        if oauth is not None and answer.status == 401:
            self._authorizer.forget(oauth, tenant=listener.tenant)
        return answer

    async def _token(self, oauth: Mapping[str, str], tenant: str, *, timeout_ms: int) -> str | Answer:
        """The header that proves us, or why there is none."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return await self._authorizer.header(oauth, tenant=tenant) or ""
        except (RequestFailed, Refused) as error:
            return Answer(error=str(error))
        except TimeoutError:
            return Answer(error=f"no token within {timeout_ms} ms")
