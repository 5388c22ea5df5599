"""Notification consumers on the wire: lists of destinations, of which Courier has webhooks."""

from typing import Any

from couriermq.core.consumers import NOTIFICATION, Consumer
from couriermq.core.model import SECOND, ListenerSettings
from couriermq.core.redaction import redacted_url
from couriermq.dialects.cloudflare.errors import Code, Refused
from couriermq.dialects.cloudflare.wire.reading import shown

RETRIES, RETRY_S = 100, 10
LISTENER = ListenerSettings(schedule_ms=(RETRY_S * SECOND,) * RETRIES, jitter=0.0)
"""The vendor's fixed settings: a message at a time, tried again every ten seconds, a hundred times."""
QUEUE: dict[str, Any] = {"keep_delivered": False}
"""What a notification consumer asks of its queue: what is delivered leaves it."""
WEBHOOKS = 10
OTHERS = ("email", "pagerduty")


def read_webhooks(settings: dict[str, Any]) -> tuple[str, ...]:
    for name in OTHERS:
        if settings.get(name):
            raise _refused(f"Courier notifies webhooks and has no {name}; choose settings.webhooks", name)
    entries = settings.get("webhooks")
    if not isinstance(entries, list) or not 1 <= len(entries) <= WEBHOOKS:
        raise _refused(f"a notification consumer has 1 to {WEBHOOKS} webhooks", "webhooks")
    urls: list[str] = []
    for entry in entries:
        url = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(url, str) or "://" not in url:
            raise _refused(f"the id of a webhook is {shown(url)}; here it is the URL itself", "webhooks")
        urls.append(url)
    if len(set(urls)) < len(urls):
        raise _refused("each webhook stands once", "webhooks")
    return tuple(urls)


def fields(urls: tuple[str, ...]) -> dict[str, Any]:
    """What the annotation holds, which everybody sees who sees the queue."""
    return {"type": NOTIFICATION, "webhooks": tuple(redacted_url(url) for url in urls)}


def write_settings(consumer: Consumer) -> dict[str, object]:
    return {
        "batch_size": 1,
        "max_retries": RETRIES,
        "retry_delay": RETRY_S,
        "email": [],
        "pagerduty": [],
        "webhooks": [{"id": url} for url in consumer.webhooks],
    }


def _refused(sentence: str, name: str) -> Refused:
    return Refused(Code.CONSUMER_SETTINGS_INVALID, sentence, pointer=f"/settings/{name}")
