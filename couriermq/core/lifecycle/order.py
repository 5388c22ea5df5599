"""Queues that only one at a time may change, or lease from."""

from collections.abc import Iterable

from couriermq.core.lifecycle.needs import Deciding, Exclusive
from couriermq.core.model import Kind, Queue


def ordered_keys(queues: Iterable[Queue]) -> tuple[int, ...]:
    """Of the queues those that nobody else may change meanwhile."""
    return tuple(sorted({queue.key for queue in queues if queue.kind is Kind.FIFO}))


def leasing_keys(queue: Queue) -> tuple[int, ...]:
    """The queue, if nobody else may lease from it meanwhile: it is in order, or what is leased of it has a limit."""
    return ordered_keys([queue]) if queue.settings.max_leased is None else (queue.key,)


def keep_order(*queues: Queue) -> Deciding[None]:
    """Have nobody else change those of the queues that are in order; comes before anything else is asked of them."""
    if keys := ordered_keys(queues):
        yield Exclusive(keys)
