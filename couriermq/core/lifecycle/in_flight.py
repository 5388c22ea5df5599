"""The limit on messages of a queue that are leased at the same time, to receivers and to jobs alike."""

from couriermq.core.lifecycle.needs import Deciding
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import LEASED_COUNT
from couriermq.core.model import Queue, QueueSettings


def leasable(unit: Unit, queue: Queue, wanted: int) -> Deciding[int]:
    """How many of the wanted messages may be leased now. The queue stays locked for other callers until the commit.

    Leases that end meanwhile leave more room than this finds, never less; their commits wake waiting receivers (see
    `Unit.finish`).
    """
    most = queue.settings.max_leased
    if most is None:
        return wanted
    _, _, leased, *_ = yield from unit.totals(queue.key)
    return max(0, min(wanted, most - leased))


def gained(before: QueueSettings, after: QueueSettings) -> int:
    """How many messages more may be leased after a change of settings."""
    if before.paused and not after.paused:
        return LEASED_COUNT if after.max_leased is None else after.max_leased
    if before.max_leased is None:
        return 0
    return LEASED_COUNT if after.max_leased is None else max(0, after.max_leased - before.max_leased)
