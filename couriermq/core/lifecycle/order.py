"""Queues that only one at a time may change."""

from collections.abc import Iterable

from couriermq.core.lifecycle.needs import Deciding, Exclusive
from couriermq.core.model import Kind, Queue


def ordered_keys(queues: Iterable[Queue]) -> tuple[int, ...]:
    """Of the queues those that nobody else may change meanwhile."""
    return tuple(sorted({queue.key for queue in queues if queue.kind is Kind.FIFO}))


def keep_order(*queues: Queue) -> Deciding[None]:
    """Have nobody else change those of the queues that are in order; comes before anything else is asked of them."""
    if keys := ordered_keys(queues):
        yield Exclusive(keys)
