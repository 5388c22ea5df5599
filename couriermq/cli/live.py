"""Messages that are in queues now, found by what they are and removed."""

from collections.abc import Iterator
from typing import Any

import msgspec

from couriermq.cli.connection import Remote
from couriermq.core.limits import BATCH_COUNT
from couriermq.lake.blanking import Wanted

Json = dict[str, Any]

PAGE = 1_000


def remove_live(remote: Remote, wanted: Wanted) -> Iterator[int]:
    """Remove them from every queue, whatever their state; tells how many there were, request by request."""
    queues = [wanted.queue] if wanted.queue else [one["name"] for one in remote.every(remote.path("queues"), "queues")]
    for queue in queues:
        seqs = [message["seq"] for message in _live(remote, queue, wanted)]
        for start in range(0, len(seqs), BATCH_COUNT):
            order = {"seqs": seqs[start : start + BATCH_COUNT]}
            yield len(remote.client.post(remote.queue(queue, "remove"), order)["seqs"])


def _live(remote: Remote, queue: str, wanted: Wanted) -> list[Json]:
    query: Json = {"limit": PAGE}
    if wanted.attribute is not None:
        name, value = wanted.attribute
        query["attribute"] = f"{name}:{msgspec.json.encode(value).decode()}"
    else:
        query["id"] = wanted.message_id
    found: list[Json] = []
    while True:
        page = remote.client.get(remote.queue(queue, "messages"), query)
        found += page["messages"]
        if page["next"] is None:
            return found
        query["after"] = page["next"]
