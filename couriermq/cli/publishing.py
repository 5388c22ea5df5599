"""Sending many messages so that each arrives exactly once, however often the command is killed and started again.

Messages are sent in numbered portions. A portion is staged part by part, and published as one number of a series; the
server remembers the highest number of each series, so that a portion that was published is never published again.

Each message has a `dedup_id` of its own, made of series, number and place: by the sender's `id`, which messages may
share, a FIFO queue would take one for a duplicate of another and drop it.
"""

import base64
from collections.abc import Iterable, Iterator
from typing import Any

from couriermq.cli.client import Refused
from couriermq.cli.connection import Remote
from couriermq.cli.sending import batches

Json = dict[str, Any]


def published(remote: Remote, queue: str, series: str) -> int:
    """The number of the last portion that was published; 0 when none was."""
    try:
        return int(remote.client.get(remote.queue(queue, "publications", series))["number"])
    except Refused as refused:
        if refused.status == 404:
            return 0
        raise


def publish(remote: Remote, queue: str, series: str, number: int, messages: Iterable[Json]) -> int:
    """Send the messages as portion `number`, all or none; returns how many."""
    stage, parts, count = f"{series}-{number}", 0, 0
    named = ({**message, "dedup_id": f"{stage}-{index}"} for index, message in enumerate(messages))
    for batch in batches(named):
        remote.client.put(remote.queue(queue, "stages", stage, str(parts)), {"messages": batch})
        parts += 1
        count += len(batch)
    stages = {stage: parts} if parts else {}
    order = {"number": number, "stages": list(stages), "parts": stages}
    remote.client.put(remote.queue(queue, "publications", series), order)
    return count


def portions(messages: Iterable[Json], size: int) -> Iterator[list[Json]]:
    portion: list[Json] = []
    for message in messages:
        portion.append(message)
        if len(portion) == size:
            yield portion
            portion = []
    if portion:
        yield portion


def encoded(body: bytes) -> str:
    return base64.b64encode(body).decode()
