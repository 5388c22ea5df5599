"""Notification consumers are listeners: one for each webhook, made and deleted with the consumer."""

import contextlib

from couriermq.clock import mint_id
from couriermq.core.consumers import ANNOTATION, consumer_of
from couriermq.core.errors import ListenerNotFound, QueueNotFound
from couriermq.core.model import Listener, Queue
from couriermq.dialects.cloudflare.wire.notifications import LISTENER
from couriermq.web.call import Call


async def check_webhooks(call: Call, queue: Queue, urls: tuple[str, ...]) -> None:
    """Raise Invalid for a URL that may not be delivered to."""
    for url in urls:
        await call.services.deliveries.check_urls({"settings.webhooks": url}, tenant=queue.tenant)


async def match_listeners(call: Call, queue: Queue, urls: tuple[str, ...]) -> None:
    """Make the listeners those of the webhooks: delete what the consumer no longer has, create what is missing."""
    consumer = consumer_of(queue)
    owner = consumer.id if consumer is not None else ""
    present = _listeners(call, queue)
    kept = {one.url for one in present if one.url in urls and one.annotations[ANNOTATION] == owner}
    for listener in present:
        if listener.url not in kept:
            with contextlib.suppress(ListenerNotFound, QueueNotFound):  # another call has deleted it
                await call.services.catalog.delete_listener(listener, principal=call.principal.id)
    for url in urls:
        if url not in kept:
            await _create(call, queue, owner, url)


def _listeners(call: Call, queue: Queue) -> list[Listener]:
    return [one for one in call.services.catalog.listeners_of(queue) if ANNOTATION in one.annotations]


async def _create(call: Call, queue: Queue, owner: str, url: str) -> None:
    services = call.services
    await services.catalog.create_listener(
        queue,
        f"notification-{mint_id(services.clock)}",
        url,
        settings=LISTENER,
        secrets=(services.deliveries.new_secret(),),
        annotations={ANNOTATION: owner},
        principal=call.principal.id,
    )
