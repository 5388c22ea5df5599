"""The consumer of a queue, and the Workers that serve consumers of their script.

A consumer is an annotation of its queue. Settings that change what the queue does (attempts, delays, dead letters) are
the queue's own, where every dialect sees them; the annotation has the rest.
"""

from typing import Literal

import msgspec

from couriermq.core.model import SECOND, Json, Queue, Secret

ANNOTATION = "cloudflare.consumer"
HTTP_PULL, WORKER, NOTIFICATION = "http_pull", "worker", "notification"

DEFAULT_BATCH = 10
DEFAULT_WAIT_MS = 5 * SECOND
SCRIPT_CHARS = 256


class Consumer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the annotation holds; None means the default."""

    id: str
    type: Literal["http_pull", "worker", "notification"]
    created_at: int
    batch_size: int | None = None
    max_concurrency: int | None = None
    max_wait_time_ms: int | None = None
    script_name: str = ""
    environment_name: str = ""
    webhooks: tuple[str, ...] = ()
    """Of a notification consumer: the origins of the URLs that messages are delivered to. The URLs themselves, which
    may hold secrets, are in the listeners."""


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """Where the bridge of a script listens; every consumer of the tenant that names the script is served there."""

    tenant: str
    script: str
    url: str
    secrets: tuple[Secret, ...] = ()
    """What batches are signed with, the newest first."""
    created_at: int = 0
    changed_at: int = 0


def dead_letters_of(queue: Queue, listener_annotations: dict[str, Json], own_id: str) -> str:
    """The id of the queue for messages that a listener gives up: a consumer's go where its queue's dead letters go, if
    they go anywhere; those of other listeners go to the listener's own."""
    follows = ANNOTATION in listener_annotations
    return (queue.settings.dead_letter_queue if follows else None) or own_id


def consumer_of(queue: Queue) -> Consumer | None:
    return consumer_in(queue.annotations)


def consumer_in(annotations: dict[str, Json]) -> Consumer | None:
    """None also for an annotation of that name that is not a consumer."""
    document = annotations.get(ANNOTATION)
    if document is None:
        return None
    try:
        return msgspec.convert(document, Consumer)
    except msgspec.ValidationError:
        return None
