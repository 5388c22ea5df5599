"""Loads what decisions need and commits what they come to: one connection, one lane of the journal."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from types import GeneratorType
from typing import Any

import psycopg

from couriermq.core.errors import CourierError, Unavailable
from couriermq.core.jumps import skip
from couriermq.core.lanes import first_lane, first_of_lane
from couriermq.core.lifecycle.needs import Seqs
from couriermq.core.lifecycle.rows import Pack
from couriermq.core.lifecycle.tally import Tally
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import State
from couriermq.storage.contents import Damaged
from couriermq.storage.group_commit import Order, Turn, Work, decide_all
from couriermq.storage.postgres.changes import final, pending
from couriermq.storage.postgres.connection import COMMIT, Connection, Rows, Step, ask, connect, is_usable
from couriermq.storage.postgres.facts import Facts, Q
from couriermq.storage.postgres.failures import (
    RETRY_MS,
    UNKNOWN_OUTCOME,
    UNREACHABLE,
    ends_session,
    refusal,
    sentence,
)
from couriermq.storage.postgres.notifications import Node

TRIES = 8
RECONNECT_SECONDS = 0.5
LANE_SECONDS = 10.0
"""How long a connection waits for a lane while all of them are taken."""
MOST_DAMAGED = 1_000
"""Rows that one order sets aside before it gives up."""
LEASE_BLOCK = 10_000
"""Numbers for leases that a value of the sequence stands for."""
FEW_LEASES = 5_000
"""More than one batch takes, which has about 2,000 events."""
STALE = "CQ001"
CHANGE_CATALOG = "change_catalog"
"""The first change of those that concern the control plane. It takes a lock that all commits need: nothing is asked
after it in its transaction."""
SILENT = "25P03"
"""The server has ended the session because this node said nothing in a transaction; that was not committed."""
HOLD_SECONDS = 3
"""How long a node that falls silent in a transaction holds its locks of rows and of FIFO queues."""
COLLISIONS = {"40001", "40P01"}
"""SQLSTATEs after which a transaction can simply be tried again: another one stood in its way."""
EXPECTED = {STALE, *COLLISIONS}
SLOTS = "record_slot_key"
"""The constraint that a record violates whose slot another has."""
BEGIN: Step = ("BEGIN", ())
ONE_MOMENT: Step = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ())

log = logging.getLogger(__name__)

SetAside = Callable[[Damaged], Work]


class SlotTaken(Exception):
    """A record wants a slot that another has."""


class Transaction:
    """Begins with the first question; a transaction without one is a single call."""

    def __init__(self, connection: Connection, begin: Step = BEGIN) -> None:
        self._connection = connection
        self._begin = begin
        self.is_open = False
        self.unwritten: Callable[[], list[Step]] = list
        """Gives the steps that write what later questions must see."""

    async def ask(self, steps: Sequence[Step]) -> list[Rows]:
        before = self.unwritten()
        if not self.is_open:
            before = [self._begin, *before]
            self.is_open = True
        return (await ask(self._connection, [*before, *steps]))[len(before) :]


class Committer:
    """Carries out batches, one after the other, over a connection that owns a lane."""

    def __init__(self, node: Node, set_aside: SetAside) -> None:
        self._node = node
        self._set_aside = set_aside
        self._connection: Connection | None = None
        self._lane = 0
        self._next_offset = 0
        self._next_lease = self._lease_end = 0

    # -- batches ----------------------------------------------------------------------------------------------

    async def commit(self, orders: Sequence[Order], turn: Turn) -> list[object]:
        """All that fit, tried again where another node stood in the way; raises Unavailable without a database."""
        for _ in range(TRIES):
            connection = await self._connected()
            try:
                return await self._attempt(connection, orders, turn)
            except psycopg.Error as error:
                if error.sqlstate == SILENT:
                    await self.disconnect()
                elif connection.closed or ends_session(error):
                    await self.disconnect()
                    self._node.failure = sentence(error)
                    raise Unavailable(UNKNOWN_OUTCOME, retry_after_ms=RETRY_MS) from error
                elif error.sqlstate in EXPECTED or error.diag.constraint_name == SLOTS:
                    await self._roll_back()
                    if error.diag.constraint_name == SLOTS:
                        raise SlotTaken from error
                    if error.sqlstate == STALE:
                        await self._node.refresh()
                else:  # perhaps in the middle of `take_seqs`, whose lock lasts as long as its session
                    await self.disconnect()
                    raise
            except asyncio.CancelledError:
                await self.disconnect()
                raise
            except BaseException:
                await self._roll_back()
                raise
        raise Unavailable("the database is too busy to decide; try again", retry_after_ms=RETRY_MS)

    async def commit_alone(self, order: Order) -> object:
        """The result of an order, or its error; messages that turn out to be damaged on the way are set aside first."""
        failure: Exception = Unavailable("too much of the store is damaged; run `courier doctor`")
        for _ in range(MOST_DAMAGED):
            try:
                return (await self.commit([order], Turn()))[0]
            except Damaged as damaged:
                log.error("%s: its messages are set aside; run `courier doctor`", damaged)
                failure = Unavailable(f"{damaged}; run `courier doctor`")
                count = await self.commit_alone(self._set_aside(damaged))
                if not isinstance(count, int) or not count:
                    break
                self._node.metrics.quarantined += count
            except CourierError as error:
                return error
            except psycopg.Error as error:
                return refusal(error)
            except Exception as error:
                log.debug("an order failed", exc_info=True)
                return error
        return failure

    async def _attempt(self, connection: Connection, orders: Sequence[Order], turn: Turn) -> list[object]:
        await self._have_leases(connection)
        unit = Unit(_nothing, next_seq=0, seq_end=0, next_offset=self._next_offset, next_lease=self._next_lease)
        transaction = Transaction(connection)
        node = self._node
        facts = Facts(transaction.ask, space=node.space, cache=node.cache, marks=node.marks)
        left: dict[int, int] = {}

        def unwritten() -> list[Step]:
            self._take_contents(unit, facts)
            _note_left(unit, left)
            return pending(unit)

        transaction.unwritten = unwritten
        known = node.catalog_version  # decide with one version, even if the node hears of a newer one meanwhile
        owed = node.owed_now()
        try:
            results: list[object] = await self._decide(connection, unit, facts, decide_all(unit, orders, turn))
            unit.finish()
            self._take_contents(unit, facts)
            _note_left(unit, left)
            _note_passed_over(facts, left)
            await self._finish(connection, unit, transaction, left, known)
        except BaseException:
            for key in unit.touched:
                node.due(key, 0)  # what time was to do may not have happened
            raise
        for key in facts.emptied - left.keys():
            node.taken(key, owed)
        for start, content in facts.contents.items():
            node.cache.put(start, content)
        return results

    async def _decide(self, connection: Connection, unit: Unit, facts: Facts, decision: Any) -> Any:
        """Answer what a decision needs until it has its outcome."""
        try:
            need = next(decision)
            while True:
                if type(need) is Seqs:
                    answer: Any = await self._seqs(connection, need)
                else:
                    answer = await facts.load(need)
                need = decision.send(answer)
        except StopIteration as end:
            return end.value

    def _take_contents(self, unit: Unit, facts: Facts) -> None:
        for start, content in unit.new_contents.items():
            facts.contents.put(start, content)
            facts.added.add(start)
        unit.new_contents.clear()

    async def _finish(
        self, connection: Connection, unit: Unit, transaction: Transaction, left: dict[int, int], known: int
    ) -> None:
        """Write the rest and commit, in one round trip; nothing at all where nothing has changed.

        `known` is the version of the catalog that the unit was decided with.
        """
        node, tallies = self._node, unit.changed_tallies()
        if not (tallies or not unit.changes.is_empty or unit.next_offset != self._next_offset or transaction.is_open):
            return
        told = {key: unit.ready.get(key, 0) + left.get(key, 0) for key in unit.ready.keys() | left.keys()}
        changes_catalog = any(name == CHANGE_CATALOG for name, _ in unit.changes.orders)
        known += changes_catalog
        urgent = {key: count for key, count in told.items() if key in left or node.is_urgent(key, count)}
        owed = node.owed(urgent)
        notice = node.notice(urgent, catalog=changes_catalog)
        used = unit.next_seq and node.seqs.ahead(sum(row.count for row in unit.changes.journal if row.first_seq))
        steps = final(
            unit, lane=self._lane, space=node.space, known=known, channel=node.channel, notice=notice,
            wanted=used,
        )  # fmt: skip
        if transaction.is_open:
            steps = [*steps, COMMIT]
        elif len(steps) > 1:
            steps = [BEGIN, *steps, COMMIT]
        try:
            answers = await ask(connection, steps)
            if connection.is_unreplicated:
                raise psycopg.OperationalError("somebody has cancelled the wait for a standby")
        except BaseException:
            if notice is not None:
                node.tell_later(owed)
            raise
        if used:
            ((first,),) = next(rows for rows in reversed(answers) if rows)
            node.seqs.add(first, used)
        self._keep(unit, told if notice is None else {key: n for key, n in told.items() if key not in urgent})

    def _keep(self, unit: Unit, untold: dict[int, int]) -> None:
        """The unit has been committed."""
        node = self._node
        has_events = unit.next_offset != self._next_offset
        self._next_offset, self._next_lease = unit.next_offset, unit.next_lease
        node.failure = None
        node.metrics.events.update(unit.kinds)
        if has_events:
            node.signals.journaled()
        if unit.flows:
            node.signals.happened(unit.flows)
        for at, key in unit.dues:
            node.due(key, at)
        for key, count in unit.ready.items():
            node.signals.ready(key, count)
        if untold:
            node.tell_later(untold)

    # -- numbers ----------------------------------------------------------------------------------------------

    async def _seqs(self, connection: Connection, need: Seqs) -> tuple[int, int]:
        stock = self._node.seqs
        first = None if need.is_fresh else stock.take(need.count)
        if first is None:
            (((first,),),) = await ask(connection, [(Q.take_seqs, (self._node.space, need.count))])
            stock.given(first, need.count)
        return first, first + need.count

    async def _have_leases(self, connection: Connection) -> None:
        if self._lease_end - self._next_lease < FEW_LEASES:
            (((first,),),) = await ask(connection, [(Q.lease_block, ())])
            self._next_lease, self._lease_end = first, first + LEASE_BLOCK

    # -- the connection ---------------------------------------------------------------------------------------

    async def _roll_back(self) -> None:
        """Be ready for the next transaction, on a new connection if need be."""
        if self._connection is not None and not self._connection.closed:
            with contextlib.suppress(psycopg.Error):
                await self._connection.execute("ROLLBACK")
                return
        await self.disconnect()

    async def _connected(self) -> Connection:
        if is_usable(self._connection):
            return self._connection
        await self.disconnect()
        node, loop = self._node, asyncio.get_running_loop()
        if loop.time() < node.retry_at:
            raise Unavailable(node.failure or UNREACHABLE, retry_after_ms=RETRY_MS)
        try:
            connection = await connect(node.url, node.guard)
            try:
                await self._take_lane(connection)
            except BaseException:
                await connection.close()
                raise
        except psycopg.Error as error:
            node.retry_at = loop.time() + RECONNECT_SECONDS
            node.failure = sentence(error)
            raise Unavailable(node.failure, retry_after_ms=RETRY_MS) from error
        self._connection = connection
        return connection

    async def _take_lane(self, connection: Connection) -> None:
        """Own the lowest lane that is free, for as long as the session lasts, and go on where it ended.

        The lock belongs to the connection that writes: who loses the one has lost the other.
        """
        await connection.execute(f"SET idle_in_transaction_session_timeout = '{HOLD_SECONDS}s'".encode(), prepare=False)
        number = await self._free_lane(connection)
        shard_lane = first_lane(self._node.shard)
        lane = shard_lane + number
        await ask(connection, [(Q.add_lane, (lane, first_of_lane(lane)))])
        (lanes,) = await ask(connection, [(Q.lanes, (lane, lane))])
        self._lane = lane
        self._next_offset = skip(self._node.guard.jumps, lanes[0][2])
        self._next_lease = self._lease_end = 0

    async def _free_lane(self, connection: Connection) -> int:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + LANE_SECONDS
        while loop.time() < give_up_at:
            (found,) = await ask(connection, [(Q.take_lane, (self._node.space,))])
            if found:
                return int(found[0][0])
            await asyncio.sleep(RECONNECT_SECONDS)
        raise Unavailable("all lanes of the journal are taken: too many nodes", retry_after_ms=RETRY_MS)

    async def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


async def look(connection: Connection, node: Node, work: Work) -> Any:
    """Carry out an order that changes nothing, on one moment of what is committed; raises Damaged."""
    transaction = Transaction(connection, ONE_MOMENT)
    facts = Facts(transaction.ask, space=node.space, cache=node.cache, locks=False)
    decision = work(Unit(_nothing))
    if not isinstance(decision, GeneratorType):
        return decision
    try:
        need = next(decision)
        while True:
            need = decision.send(await facts.load(need))
    except StopIteration as end:
        return end.value
    finally:
        if transaction.is_open and not connection.closed:
            # After a rollback psycopg forgets all statements that the connection has prepared. Of a transaction that
            # has failed this is one as well.
            await connection.execute("COMMIT")


def _nothing(key: int) -> Tally:
    """What a transaction has added to the figures of a queue so far."""
    return Tally(key, is_partial=True)


def _note_left(unit: Unit, left: dict[int, int]) -> None:
    """What was locked and is left of ready packs: another node may have looked in vain meanwhile."""
    for pack in unit.changes.shrunk_packs.values():
        if pack.state == State.READY:
            left[pack.queue] = pack.remaining


def _note_passed_over(facts: Facts, left: dict[int, int]) -> None:
    """The same of all else that was ready, was locked and still is ready."""
    for queue, rows in facts.ready_rows.items():
        still = {id(row): row for row in rows if row.state == State.READY}
        count = sum(row.remaining if isinstance(row, Pack) else 1 for row in still.values())
        if count:
            left[queue] = max(count, left.get(queue, 0))
