"""What a listener's deliveries have in common, worked out once for each version of the listener."""

import msgspec

from courier.core.model import Listener, Message
from courier.delivery.authorization import Authorizer
from courier.delivery.client import Client
from courier.delivery.connection import RequestFailed
from courier.delivery.guard import Guard, Refused, Target
from courier.delivery.headers import event_lines, fixed_lines, message_lines
from courier.delivery.model import Answer


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
        if oauth is not None:
            try:
                head += b"Authorization: %b\r\n" % (await self._authorizer.header(oauth) or "").encode("ascii")
            except (RequestFailed, Refused) as error:
                return Answer(error=str(error))
        head += b"Content-Length: %d\r\n\r\n" % len(message.body)
        answer = await self._client.exchange(cover.target, head, message.body, timeout_ms=settings.timeout_ms)
        if oauth is not None and answer.status == 401:
            self._authorizer.forget(oauth)
        return answer
