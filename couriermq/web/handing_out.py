"""Answers that hand out messages."""

import contextlib
from collections.abc import Sequence
from functools import partial

from couriermq.core.errors import CourierError
from couriermq.core.model import Lease, Queue, Release
from couriermq.web.call import Call, Reply


def handing_out(call: Call, queue: Queue, leases: Sequence[Lease], answer: Reply) -> Reply:
    """The answer that tells a receiver of its leases; where it cannot be written, they are given back as untried."""
    if leases:
        answer.unsent = partial(_give_back, call, queue, leases)
    return answer


async def _give_back(call: Call, queue: Queue, leases: Sequence[Lease]) -> None:
    releases = [Release(lease.receipt, 0, untried=True) for lease in leases]
    with contextlib.suppress(CourierError):  # then the leases end by themselves
        await call.services.broker.settle(queue, releases, principal=call.principal.id)
