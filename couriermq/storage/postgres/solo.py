"""A transaction of its own, for what does not belong into the group commit."""

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import TypeVar

import psycopg

from couriermq.core.errors import Unavailable
from couriermq.core.model import Kind, Queue
from couriermq.storage.postgres.circle import Circle
from couriermq.storage.postgres.lane import TRIES
from couriermq.storage.postgres.link import is_collision
from couriermq.storage.postgres.pool import Pool
from couriermq.storage.postgres.transaction import StaleCatalog, Transaction

T = TypeVar("T")


async def alone(
    circle: Circle, pool: Pool, queues: Callable[[], Sequence[Queue]], work: Callable[[Transaction], Awaitable[T]]
) -> T:
    """Do the work and commit, again from the start where another node stood in the way; FIFO queues are locked."""
    for _ in range(TRIES):
        async with pool.taken() as connection:
            tx = Transaction(connection, circle.space, circle.marks)
            fifo_keys = [queue.key for queue in queues() if queue.kind is Kind.FIFO]
            try:
                with circle.attempt(tx):
                    tx.open(catalog_version=circle.catalog_version, fifo_keys=fifo_keys)
                    outcome = await work(tx)
                    started = perf_counter()
                    wrote = await tx.commit(circle.notice)
            except StaleCatalog:
                pass
            except psycopg.Error as error:
                if not is_collision(error):
                    raise
            else:
                circle.committed(tx, wrote, 1, perf_counter() - started)
                return outcome
        await circle.refresh()
    raise Unavailable("the database is too busy to decide; try again")
